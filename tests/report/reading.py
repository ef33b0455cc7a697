"""A page as a test reads it: elements with attributes and text, found by tag and attribute."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"input", "meta", "link", "br", "img", "hr"}


@dataclass
class Element:
    tag: str
    attributes: dict[str, str | None]
    children: list[Element | str] = field(default_factory=list)

    def __iter__(self) -> Iterator[Element]:
        """Every element within, in the order of the page."""
        for child in self.children:
            if isinstance(child, Element):
                yield child
                yield from child

    @property
    def source(self) -> str:
        """All text within, as it was written."""
        return "".join(c if isinstance(c, str) else c.source for c in self.children)

    @property
    def text(self) -> str:
        """All text within, as a reader sees it; narrow spaces stay."""
        return re.sub(r"[ \n\t]+", " ", self.source).strip()

    def all(self, tag: str | None = None, **attributes: str) -> list[Element]:
        """Elements of a tag with these attributes; ``class_`` asks for one class of several."""
        return [e for e in self if e.fits(tag, attributes)]

    def one(self, tag: str | None = None, **attributes: str) -> Element:
        (found,) = self.all(tag, **attributes)
        return found

    def fits(self, tag: str | None, attributes: dict[str, str]) -> bool:
        classes = (self.attributes.get("class") or "").split()
        return (tag is None or self.tag == tag) and all(
            value in classes
            if name == "class_"
            else self.attributes.get(name.replace("_", "-")) == value
            for name, value in attributes.items()
        )

    def rows(self) -> list[list[str]]:
        """The texts of a table's cells."""
        return [[c.text for c in row.children if isinstance(c, Element)] for row in self.all("tr")]


class _Parser(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open = [Element("", {})]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        made = Element(tag, dict(attrs))
        assert len(made.attributes) == len(attrs), f"an attribute twice: {attrs}"
        self.open[-1].children.append(made)
        if tag not in VOID:
            self.open.append(made)

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1].tag == tag, f"{tag} closes {self.open[-1].tag}"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)


def read(page: str) -> Element:
    """The page as a tree; an element that is closed wrongly is a failure."""
    parser = _Parser()
    parser.feed(page)
    parser.close()
    assert len(parser.open) == 1
    return parser.open[0]
