"""The section of the page with the paper's claims and their verdicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from bowsaw.report import Section, table, tag
from reproduction.claims import Answer, Verdict

ORDER: tuple[Answer, ...] = ("supported", "not shown", "contradicted", "not measured")


def claims_section(verdicts: Sequence[Verdict]) -> Section:
    """Return the section with a strip of all answers and a card per claim."""
    return Section(
        "Claims",
        "What the paper claims, and what was found. A fixed rule answers each claim from the "
        "records of this run, by the 95 % interval of the test below the curves: supported, "
        "contradicted or, where the interval allows both, not shown. The method as published "
        "(paper) decides, refinement is shown beside it.",
        answer_strip(verdicts) + claim_cards(verdicts),
    )


def answer_strip(verdicts: Sequence[Verdict]) -> str:
    """Return how many claims have each answer, as one line."""
    counts = Counter(verdict.answer for verdict in verdicts)
    parts = [
        tag("span", f"{counts[answer]} {answer}", class_="answer-word", data_answer=answer)
        for answer in ORDER
        if counts[answer]
    ]
    return tag("p", [part for one in parts for part in (" · ", one)][1:], class_="strip")


def claim_cards(verdicts: Sequence[Verdict]) -> str:
    """Return a card per claim: its answer, what was found, and the numbers folded."""
    cards = []
    for place, verdict in enumerate(verdicts, 1):
        # The numbers first, the rule that turned them into an answer beneath.
        found, _, rule = verdict.summary.partition(" Rule: ")
        numbers = [
            tag("p", found),
            tag("p", f"Rule: {rule}", class_="where") if rule else None,
            tag("p", f"In the paper: {verdict.where}", class_="where"),
            table(f"Claim {place}", verdict.header, verdict.rows) if verdict.rows else None,
        ]
        cards.append(
            tag(
                "article",
                tag("p", verdict.answer.capitalize(), class_="answer-word"),
                tag("h3", f"{place}. {verdict.claim}"),
                tag("p", verdict.found),
                tag("details", tag("summary", "The numbers and the rule"), numbers),
                class_="claim",
                id=f"claim-{verdict.id}",
                data_answer=verdict.answer,
            )
        )
    return tag("div", cards, class_="claims")
