import json
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from bowsaw.markup import Markup, script_json, tag, text

# What XML can hold, which SVG files are.
writable = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff")
)


@given(writable, writable)
def test_text_and_attributes_come_back_as_they_were(inside, attribute):
    found = ElementTree.fromstring(tag("p", inside, title=attribute))
    assert (found.text or "") == inside
    assert found.get("title") == attribute


@given(st.dictionaries(st.text(), st.text() | st.floats(allow_nan=False, allow_infinity=False)))
def test_script_data_come_back_and_cannot_end_their_element(data):
    made = script_json(data)
    assert not set(made) & set("<>&\u2028\u2029")
    encodable = json.loads(json.dumps(data).encode("utf-8", "replace"))
    lone = any(
        0xD800 <= ord(c) < 0xE000 for word in map(str, [*data, *data.values()]) for c in word
    )
    assert lone or json.loads(made) == encodable


def test_only_markup_is_taken_as_it_is():
    assert text("<b>") == "&lt;b&gt;"
    assert text(Markup("<b>")) == "<b>"
    assert text([1, None, [Markup("<i>"), "&"]]) == "1<i>&amp;"
    assert tag("input", checked=True, hidden=False, title=None) == '<input checked="">'
