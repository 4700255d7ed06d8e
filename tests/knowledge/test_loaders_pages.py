"""HTML: the content of real pages, labeled by hand."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from lorebind_knowledge.loaders.registry import load_document

PAGES = Path(__file__).parent / "pages"


@dataclass(frozen=True)
class Label:
    """The content of a page as a reader would define it."""

    title: str
    first: str
    """First line of the content."""
    lines: tuple[str, ...]
    """Lines that must be present."""
    absent: tuple[str, ...]
    """Texts that must not be present."""
    headings: tuple[tuple[int, str], ...]


LABELS = {
    "mdbook": Label(
        "Understanding Ownership",
        "Understanding Ownership",
        (),
        ("Keyboard shortcuts", "The Rust Programming Language", "Auto", "Press"),
        ((1, "Understanding Ownership"),),
    ),
    "rustdoc": Label(
        "swap in std::mem - Rust",
        "Function swap",
        (
            "pub const fn swap<T>(x: &mut T, y: &mut T)",
            "Swaps the values at two mutable locations, without deinitializing either one.",
            "mem::swap(&mut x, &mut y);",
        ),
        ("Skip to main content", "1.95.0", "In std::mem", "§"),
        ((1, "Function swap"), (2, "Examples")),
    ),
    "rustdoc_module": Label(
        "std::char - Rust",
        "Module char",
        (
            "Utilities for the char primitive type.",
            "The error type returned when a conversion from u32 to char fails.",
            "Converts a digit in the given radix to a char. Use char::from_digit instead.",
        ),
        ("Skip to main content", "Module Items", "In crate std"),
        ((1, "Module char"), (2, "Structs"), (2, "Constants"), (2, "Functions")),
    ),
    "sphinx_alabaster": Label(
        "Working with the Shell",
        "Working with the Shell",
        (
            "New in version 0.3.",
            "Generally it’s recommended that you read The Request Context first.",
            ">>> ctx = app.test_request_context()",
            ">>> from shelltools import *",
        ),
        ("modules |", "Overview", "Development Server", "Created using", "¶"),
        (
            (1, "Working with the Shell"),
            (2, "Command Line Interface"),
            (2, "Creating a Request Context"),
            (2, "Firing Before/After Request"),
            (2, "Further Improving the Shell Experience"),
        ),
    ),
    "sphinx_zzzeek": Label(
        "Third Party Integration Issues",
        "Third Party Integration Issues",
        (
            "    id = Column(Integer, primary_key=True)",
            "session.add(A(data=int(data)))",
        ),
        ("Release:", "ORM Configuration", "Previous:", "On this page", "flambé", "¶"),
        (
            (1, "Third Party Integration Issues"),
            (2, "I’m getting errors related to “numpy.int64”, “numpy.bool_”, etc."),
            (2, "SQL expression for WHERE/HAVING role expected, got True"),
        ),
    ),
    "httpd_manual": Label(
        "mod_env - Apache HTTP Server Version 2.4",
        "Apache HTTP Server Version 2.4",
        (
            "Description: | Passes environment variables from the shell",
            "Syntax: | PassEnv env-variable [env-variable] ...",
            "UnsetEnv LD_LIBRARY_PATH",
        ),
        ("Sitemap", "Bugfix checklist", "Licensed under", "Copyright"),
        (
            (1, "Apache Module mod_env"),
            (3, "Summary"),
            (2, "PassEnv Directive"),
            (3, "Example"),
            (2, "SetEnv Directive"),
            (3, "Example"),
            (3, "See also"),
            (2, "UnsetEnv Directive"),
            (3, "Example"),
        ),
    ),
    "nodejs_api": Label(
        "Punycode",
        "Punycode",
        (
            "Stability: 0 - Deprecated",
            "const punycode = require('punycode');",
            "punycode.decode('maana-pta'); // 'mañana'",
            "// surrogate pair for U+1D306 tetragram for centre:",
        ),
        (
            "Skip to content",
            "Table of contents",
            "Zlib",
            "View as JSON",
            "Edit on GitHub",
            "0.12.x",
        ),
        (
            (2, "Punycode"),
            (3, "punycode.decode(string)"),
            (3, "punycode.encode(string)"),
            (3, "punycode.toASCII(domain)"),
            (3, "punycode.toUnicode(domain)"),
            (3, "punycode.ucs2"),
            (4, "punycode.ucs2.decode(string)"),
            (4, "punycode.ucs2.encode(codePoints)"),
            (3, "punycode.version"),
        ),
    ),
    "npm_command": Label(
        "npm-whoami",
        "npm command-line interface",
        (
            "Display npm username",
            "npm whoami",
            '- Default: "https://registry.npmjs.org/"',
            "The base URL of the npm registry.",
        ),
        ("Table of contents", "Edit this page"),
        (
            (1, "npm-whoami @11.19.1"),
            (3, "Synopsis"),
            (3, "Description"),
            (3, "Configuration"),
            (4, "registry"),
            (3, "See Also"),
        ),
    ),
    "texinfo": Label(
        "Simple Example (libffi: the portable foreign function interface library)",
        "Next: Types, Previous: The Basics, Up: Using libffi [Index]",
        (
            "Here is a trivial example that calls puts a few times.",
            "  /* Initialize the argument info vectors */",
            '      s = "This is cool!";',
        ),
        (),
        ((3, "2.2 Simple Example"),),
    ),
    "layout_tables": Label(
        "FAQ",
        "The XSLT C library for GNOME",
        (
            "CFLAGS=`xslt-config --cflags`",
            "xsltproc --stringparam test alpha foo.xsl foo.xml",
            "3. Is there C++ bindings ?",
        ),
        ("Main Menu", "Related links", "API Indexes", "Downloads"),
        ((1, "The XSLT C library for GNOME"), (2, "FAQ")),
    ),
    "gtkdoc": Label(
        "exslt",
        "exslt",
        (
            "exslt - main header file",
            "Registers the EXSLT - Sets module",
            "#define EXSLT_DATE_NAMESPACE;",
        ),
        ("Reference Manual",),
        (),
    ),
    "javadoc": Label(
        "org.apache.commons.lang3.reflect (Apache Commons Lang 3.12.0 API)",
        "Package org.apache.commons.lang3.reflect",
        (
            "Accumulates common high-level uses of the java.lang.reflect APIs.",
            "Utilities for working with Fields by reflection.",
            "WildcardType builder.",
        ),
        ("Skip navigation", "Deprecated", "All rights reserved"),
        ((1, "Package org.apache.commons.lang3.reflect"),),
    ),
}


@pytest.mark.parametrize("name", LABELS)
def test_content(name: str) -> None:
    """The content that readers see is present with its headings, and the rest is not."""
    label = LABELS[name]
    document = load_document((PAGES / f"{name}.html").read_bytes(), f"{name}.html")
    lines = [line.strip() for line in document.text.split("\n")]
    assert document.title == label.title
    assert lines[0] == label.first
    assert [line for line in label.lines if line.strip() not in lines] == []
    assert [words for words in label.absent if words in document.text] == []
    if label.headings:
        assert tuple((h.level, h.title) for h in document.headings) == label.headings
    for heading in document.headings:
        assert document.text.startswith(heading.title, heading.start)


def test_each_page_is_labelled() -> None:
    """Every page in the folder is used by a label."""
    assert {path.stem for path in PAGES.glob("*.html")} == set(LABELS)
