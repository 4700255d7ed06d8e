"""Find the main content of a page, without the parts that all pages of its site share.

Structure decides first (`main`, `article`, `nav`, roles), then the names that authors give to
elements (`sidebar`, `cookie-banner`), then link density: an element whose text is mostly links is a
menu. Link density is the measure of Kohlschütter et al., Boilerplate Detection using Shallow Text
Features (WSDM 2010).
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable

from lorebind_knowledge.loaders.base import words
from lorebind_knowledge.loaders.html.tree import Element

_ROLES = words(
    "navigation banner contentinfo search complementary dialog alertdialog menu menubar "
    "toolbar tablist"
)
_BOUNDS = r"(?:^|[\s_-])(?:{})(?:$|[\s_-])"
_NAMES = re.compile(
    _BOUNDS.format(
        r"[^\W_]*nav(?:bar)?|navheader|navfooter|navigation|menu|menubar|sphinxsidebar[^\W_]*|"
        r"breadcrumbs?|cookies?|consent|gdpr|newsletter|subscribe|subscription|social|share|"
        r"sharing|sharedaddy|recommended|comments?|disqus[^\W_]*|footer|advert[^\W_]*|ads?|sponsored|"
        r"popup|modal|masthead|topbar|skip|skiplink|pagination|pager|toc|headerlink|searchbox|"
        r"login|signup|copyright"
    )
)
_WEAK_NAMES = re.compile(_BOUNDS.format("sidebar|related|promo|banner|overlay|toolbar"))
"""Names that are also used for content; they count only if the element has many links."""
_NAMED = words("div section ul ol dl table p form aside details nav figure td center h6")
_DENSE = words("div section ul ol dl table tr td center form details p menu")
_ANCHOR_SIGNS = {"¶", "§", "#", "🔗", "∞", "permalink"}

_FAIR_SHARE = 0.25
"""Minimum share of the page's text for `main` to be used as the content."""
_MOST_LINKED = 0.6
_FEWEST_LINKS = 3
_SENTENCE = 20
"""Number of letters in one piece, outside of links, that make an element more than a menu."""
_LARGEST_NAMED = 0.4
"""Maximum share of the content for an element to be removed because of its name."""


def content_of(body: Element) -> list[Element]:
    """Return the elements of the main content, in order, with everything else removed.

    On a page that contains only links, the links are the content.
    """
    chosen = _marked_content(body)
    if chosen:
        return [_without(root, _boilerplate(root, marked=True)) for root in chosen]
    content = _without(body, _boilerplate(body, marked=False))
    if content.letters * 4 < body.letters:
        return [_without(body, _boilerplate(body, marked=True))]
    return [content]


def _marked_content(body: Element) -> list[Element]:
    """Return the elements marked as content, if they have a fair share of the text."""
    elements = list(body.elements())
    mains = [e for e in elements if e.tag == "main" or e.attributes.get("role") == "main"]
    main = max(mains, key=lambda element: element.letters, default=None)
    if main is not None and main.letters >= body.letters * _FAIR_SHARE and main.letters:
        article = _largest_article(main.elements())
        whole = article and article.letters >= main.letters * 0.6
        return (
            [article] if article and whole and bool(article.titles) >= bool(main.titles) else [main]
        )
    article = _largest_article(elements)
    if article and article.letters >= body.letters * _FAIR_SHARE * 2:
        return [article]
    return []


def _largest_article(elements: Iterable[Element]) -> Element | None:
    articles = [
        element
        for element in elements
        if element.tag == "article"
        or element.attributes.get("role") == "article"
        or element.attributes.get("itemprop") == "articleBody"
    ]
    return max(articles, key=lambda element: element.letters, default=None)


def _boilerplate(root: Element, *, marked: bool) -> Callable[[Element], bool]:
    """Return a test for boilerplate; in marked content, lists of links are content."""
    total = root.letters

    def is_boilerplate(element: Element) -> bool:
        tag, attributes = element.tag, element.attributes
        density = element.linked / element.letters if element.letters else 0.0
        if tag == "nav" or attributes.get("role") in _ROLES:
            return True
        if tag == "a":
            texts = (child for child in element.children if isinstance(child, str))
            return "".join(texts).strip() in _ANCHOR_SIGNS
        if tag == "header":
            return not marked and not (element.titles and density < 0.3)
        if tag == "footer":
            return True
        if tag == "aside":
            return not marked or density > 0.3 or bool(_NAMES.search(element.names))
        if tag == "form":
            return element.letters < total * 0.5
        if element.letters >= total * _LARGEST_NAMED:
            return False
        if tag in _NAMED and _NAMES.search(element.names):
            return True
        if tag in _NAMED and density > 0.2 and _WEAK_NAMES.search(element.names):
            return True
        is_menu = density > _MOST_LINKED and element.links >= _FEWEST_LINKS
        return not marked and tag in _DENSE and is_menu and element.longest < _SENTENCE

    return is_boilerplate


def _without(root: Element, is_boilerplate: Callable[[Element], bool]) -> Element:
    """Return the tree without elements that pass the test; unchanged parts are not copied."""
    children: list[Element | str] = []
    letters = root.letters
    for child in root.children:
        if (
            isinstance(child, str) or child.tag == "pre"
        ):  # names such as `comment` mark highlighted code here
            children.append(child)
            continue
        letters -= child.letters
        if not is_boilerplate(child):
            children.append(content := _without(child, is_boilerplate))
            letters += content.letters
    if len(children) == len(root.children) and all(map(operator.is_, children, root.children)):
        return root
    return Element(root.tag, root.attributes, children, letters)
