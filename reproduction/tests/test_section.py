from __future__ import annotations

from tests.report.reading import read

from reproduction.claims import Verdict
from reproduction.section import answer_strip, claim_cards

TEXT = "0 of 1. Rule: supported if all."


def verdict(answer: str) -> Verdict:
    where = ("yang", "Better than <Yang>", "Section 4")
    return Verdict(*where, answer, "It is <better>.", TEXT, ["a"], [])  # type: ignore[arg-type]


def test_a_card_has_the_answer_and_one_sentence_and_folds_the_numbers():
    (card,) = read(claim_cards([verdict("not measured")])).all("article")
    assert card.one("p", class_="answer-word").text == "Not measured"
    assert card.one("h3").text == "1. Better than <Yang>"
    folded = card.one("details")
    assert [p.text for p in card.all("p") if p not in folded.all("p")] == [
        "Not measured",
        "It is <better>.",
    ]
    assert [p.text for p in folded.all("p")] == [
        "0 of 1.",
        "Rule: supported if all.",
        "In the paper: Section 4",
    ]
    assert card.all("table") == []


def test_the_strip_counts_the_answers():
    answers = ["not shown", "supported", "contradicted", "supported"]
    strip = read(answer_strip([verdict(answer) for answer in answers]))
    assert strip.text == "2 supported · 1 not shown · 1 contradicted"
