"""The section of the page with the paper's claims and their verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bowsaw.report import Section, table, tag
from reproduction.claims import Verdict


def claims_section(verdicts: Sequence[Verdict]) -> Section:
    """Return the section with a card per claim."""
    return Section(
        "Claims",
        "What the paper claims, and what was found. A fixed rule answers each claim from the "
        "records of this run, by an interval: supported, contradicted or, where the interval "
        "allows both, not shown. The method as published decides, ours is shown beside it.",
        claim_cards(verdicts),
    )


def claim_cards(verdicts: Iterable[Verdict]) -> str:
    """Return the paper's claims: each with its answer in words and the numbers behind it."""
    cards = []
    for place, verdict in enumerate(verdicts, 1):
        # The numbers first, the rule that turned them into an answer beneath.
        found, _, rule = verdict.summary.partition(" Rule: ")
        cards.append(
            tag(
                "article",
                tag("p", verdict.answer.capitalize(), class_="answer-word"),
                tag("h3", f"{place}. {verdict.claim}"),
                tag("p", found),
                tag("p", f"Rule: {rule}", class_="where") if rule else None,
                tag("p", f"In the paper: {verdict.where}", class_="where"),
                tag(
                    "details",
                    tag("summary", "The numbers"),
                    table(f"Claim {place}", verdict.header, verdict.rows),
                )
                if verdict.rows
                else None,
                class_="claim",
                id=f"claim-{verdict.id}",
                data_answer=verdict.answer,
            )
        )
    return tag("div", cards, class_="claims")
