"""The reference page matches the declarations."""

import re

from scripts.docs.yaml_reference import anchor, reference_page

from lorebind_config.declarations.schema import FILES, json_schema


def test_every_link_leads_to_one_heading():
    """All headings differ, and every link on the page leads to one of them."""
    page = reference_page()
    anchors = [anchor(heading) for heading in re.findall(r"(?m)^##+ (.+)$", page)]
    assert len(set(anchors)) == len(anchors)
    assert set(re.findall(r"\]\(#([^)]*)\)", page)) <= set(anchors)


def test_every_key_is_on_the_page():
    """Each declaration has a section, with a row for each of its keys."""
    page = reference_page()
    for kind in FILES:
        schema = json_schema(kind)
        for definition in [schema, *schema["$defs"].values()]:
            rows = "".join(
                rf"(?=.*^\| `{re.escape(key)}` \|.* {re.escape(value['description'])} \|$)"
                for key, value in definition["properties"].items()
            )
            section = rf"(?ms)^##+ [^\n]+\n\n{re.escape(definition['description'])}$" + rows
            assert re.search(section, page), definition["title"]
