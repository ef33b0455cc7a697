from __future__ import annotations

from tests.report.reading import read

from reproduction.claims import Verdict
from reproduction.section import claim_cards


def test_claims_carry_their_answer_in_words():
    text = ("Better than <Yang>", "Section 4", "not measured", "0 of 1. Rule: supported if all.")
    verdict = Verdict("yang", *text, ["a"], [])
    (card,) = read(claim_cards([verdict])).all("article")
    assert card.one("p", class_="answer-word").text == "Not measured"
    assert card.one("h3").text == "1. Better than <Yang>"
    assert [p.text for p in card.all("p", class_="where")] == [
        "Rule: supported if all.",
        "In the paper: Section 4",
    ]
    assert card.all("table") == []
