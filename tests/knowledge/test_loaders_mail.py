"""Mail: headers, the text that is read, attachments by name, and files that are not mail."""

from __future__ import annotations

import datetime
from email.message import EmailMessage

import pytest

from lorebind_config.errors import SourceError
from lorebind_knowledge.loaders.registry import load_document


def mail(subject: str = "Keys") -> EmailMessage:
    mail = EmailMessage()
    mail["Subject"] = subject
    mail["From"] = "J\u00f6rg <joerg@example.com>"
    mail["To"] = "ann@example.com, bob@example.com"
    mail["Date"] = datetime.datetime(2024, 5, 3, 9, 30, tzinfo=datetime.UTC)
    return mail


def test_text() -> None:
    """The plain text is read with the headers, and attachments are named."""
    message = mail("Schl\u00fcssel")
    message.set_content("Gr\u00fc\u00dfe\nJ.", charset="iso-8859-1")
    message.add_alternative("<p>not read", subtype="html")
    message.add_attachment(b"x", maintype="application", subtype="pdf", filename="key plan.pdf")
    document = load_document(message.as_bytes(), "a.eml")
    assert document.text == (
        "From: J\u00f6rg <joerg@example.com>\nTo: ann@example.com, bob@example.com\n"
        "Date: Fri, 03 May 2024 09:30:00 +0000\n\nGr\u00fc\u00dfe\nJ.\n\nAttachment: key plan.pdf"
    )
    assert document.title == "Schl\u00fcssel"
    assert document.metadata == {
        "from": "J\u00f6rg <joerg@example.com>",
        "to": "ann@example.com, bob@example.com",
        "date": "2024-05-03T09:30:00Z",
    }


def test_html_only() -> None:
    """Without plain text, the text of the HTML page is read."""
    message = mail()
    message.set_content("<style>p {}</style><h1>Hi</h1><p>The key is red.", subtype="html")
    assert load_document(message.as_bytes(), "a.eml").text.endswith("\n\nHi\n\nThe key is red.")


def test_without_text() -> None:
    """A mail that is only an attachment still has sender and attachment name."""
    message = mail()
    message.add_attachment(b"x", maintype="image", subtype="png", filename="key.png")
    assert load_document(message.as_bytes(), "a.eml").text.endswith("+0000\n\nAttachment: key.png")
    assert load_document(b"Subject: Hi\n", "a", "message/rfc822").title == "Hi"


def test_texts_around_a_picture() -> None:
    """All texts are read in order; attached ones are only named."""
    message = mail()
    message.set_content("Before.")
    message.add_attachment(b"x", maintype="image", subtype="png", disposition="inline")
    message.add_attachment("After.", disposition="inline")
    message.add_attachment("<p>A footer.", subtype="html", disposition="inline")
    message.add_attachment("not read", filename="notes.txt")
    text = load_document(message.as_bytes(), "a.eml").text
    assert text.endswith(
        "+0000\n\nBefore.\n\nAfter.\n\nA footer.\n\nAttachment: image/png\nAttachment: notes.txt"
    )


def test_attachments_of_the_other_alternative() -> None:
    """If plain text is read, the page's attachments are named, but not its pictures."""
    page = EmailMessage()
    page.set_content("<p>not read", subtype="html")
    page.add_related(
        b"x", maintype="image", subtype="png", filename="logo.png", disposition="inline"
    )
    page.add_attachment(b"x", maintype="application", subtype="pdf", filename="plan.pdf")
    message = mail()
    message.set_content("Plain.")
    message.make_alternative()
    message.attach(page)
    text = load_document(message.as_bytes(), "a.eml").text
    assert text.endswith("+0000\n\nPlain.\n\nAttachment: plan.pdf")


def test_attached_mails() -> None:
    """Attached mails are read with their headers, up to a limited depth."""
    inner = mail("level 7")
    inner.set_content("Text 7.")
    for level in range(6, 0, -1):
        outer = mail(f"level {level}")
        outer.set_content(f"Text {level}.")
        outer.add_attachment(inner)
        inner = outer
    text = load_document(inner.as_bytes(), "a.eml").text
    assert "Text 1.\n\nFrom: J\u00f6rg <joerg@example.com>\nTo: ann@" in text
    assert "+0000\nSubject: level 2\n\nText 2.\n\nFrom: " in text
    assert text.endswith("Text 5.\n\nAttachment: message/rfc822")


def test_many_recipients() -> None:
    """Metadata is shortened, because it is repeated with passages."""
    to = ", ".join(f"a{number}@example.com" for number in range(200))
    document = load_document(f"\ufeffTo: {to}\n\nHi".encode(), "a.eml")
    assert document.text == f"To: {to}\n\nHi"
    assert document.metadata["to"] == to[:1999] + "\u2026"


def test_odd_mails() -> None:
    """Unknown charsets and dates are read as well as possible."""
    data = b"From: a@b.c\nDate: soon\nContent-Type: text/plain; charset=x-none\n\ncaf\xc3\xa9"
    document = load_document(data, "a.eml")
    assert document.text == "From: a@b.c\nDate: soon\n\ncaf\u00e9"
    assert (document.title, document.metadata["date"]) == ("a", "soon")


@pytest.mark.parametrize("data", [b"just a text\nand more", b"\x00\x01\x02"])
def test_refused(data: bytes) -> None:
    """A file without headers is not a mail."""
    with pytest.raises(SourceError, match=r"a.eml: is not a mail"):
        load_document(data, "a.eml")


def test_deep_nesting() -> None:
    """Deeply nested parts are read or refused."""
    data = b"Subject: x\n"
    for depth in range(3000):
        data += b"Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n" % (depth, depth)
    with pytest.raises(SourceError, match=r"a.eml: a broken mail: RecursionError"):
        load_document(data + b"\ntext", "a.eml")
