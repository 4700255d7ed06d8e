"""Splitting texts and questions into words."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorebind_config.languages import SNOWBALL
from lorebind_knowledge.text import terms
from lorebind_knowledge.text.languages import (
    DETECTED,
    detect_among,
    detect_language,
    stop_words,
)
from lorebind_knowledge.text.splitting import words_of
from lorebind_knowledge.text.terms import index_terms, query_terms

HARD = [
    "",
    " _x_ a_b Running runs RUN",
    "don’t “Go” — naïve, naive 🜚 📝tip",
    "x" * 150 + " " + "x" * 150 + " " + "y" * 65,
    "before\0after 漢字 Ⅷ ½ e\u0301 \ue000 İstanbul ﬁne",
    "\u00a0a«b·c»d×e\u2011f–g—h‘i’j“k”l„m…n‹o›p→q⇒r≤s═t▶u★v☃w✓x\ufe0fy🌍z📝",
]
languages = st.sampled_from(sorted(SNOWBALL))
pieces = st.sampled_from(
    ["’", "“", "—", "é", "e\u0301", " ", ".", "\0", "running", "漢", "แม", "हि"]
)
texts = st.lists(pieces | st.text(max_size=5) | st.text(st.characters(max_codepoint=127))).map(
    "".join
) | st.sampled_from(HARD)


@given(texts, languages)
def test_fts5_keeps_words_as_they_are(text: str, language: str) -> None:
    """SQLite stores the words of a text as often as they were extracted, for any characters."""
    words = index_terms(text, language).split()
    with closing(sqlite3.connect(":memory:")) as db:
        db.execute("create virtual table t using fts5 (text, tokenize='ascii')")
        db.execute("create virtual table w using fts5vocab (t, 'instance')")
        db.execute("insert into t values (?)", [index_terms(text, language)])
        assert sorted(term for (term,) in db.execute("select term from w")) == sorted(words)


@given(st.text(st.characters(max_codepoint=127)))
def test_words_of_ascii(text: str) -> None:
    """The fast path for ASCII finds the same words."""
    assert words_of(text) == words_of(f"{text} é")[:-1]


@given(texts, languages)
def test_what_a_text_says_is_found(text: str, language: str) -> None:
    """A question with any word of a text finds a word that the text is stored under."""
    assert query_terms(text, [language]).keys() <= set(index_terms(text, language).split())


@pytest.mark.parametrize(
    ("language", "text", "query"),
    [
        ("en", "The engines were running", "run engine"),
        ("en", "a naïve CAFÉ", "naive cafe"),
        ("de", "Die Häuser der Straßen", "Haus Straße"),
        ("fr", "les chevaux nationaux", "cheval national"),
        ("es", "las canciones bailadas", "canción bailar"),
        ("it", "le città abbandonate", "citta abbandonato"),
        ("ru", "новые книги", "новая книга"),
        ("fi", "taloissa", "talo"),
        ("hi", "लड़कियों", "लड़की"),
        ("en", "ｆｕｌｌ width Ⅷ", "full viii"),
    ],
)
def test_forms_of_words(language: str, text: str, query: str) -> None:
    """In its language, a word is found in other forms, and with or without accents."""
    assert query_terms(query, [language]).keys() <= set(index_terms(text, language).split())


@pytest.mark.parametrize(
    ("text", "query", "other"),
    [
        ("東京タワーへ行きました。", "東京タワー", "京都"),
        ("我喜欢学习中文", "学习", "习学"),
        ("แมวกินปลา", "กินปลา", "ปากกา"),
        ("고양이는 생선을 먹는다", "고양이", "강아지"),
        ("使用Python3编程", "python3", "java"),
        ("猫が好き", "猫", "犬"),
    ],
)
@pytest.mark.parametrize("language", ["en", "de"])
def test_scripts_without_spaces(text: str, query: str, other: str, language: str) -> None:
    """They are cut into pairs in texts of any language; single characters are found too."""
    terms = set(index_terms(text, language).split())
    assert query_terms(query, [language]).keys() <= terms
    assert not query_terms(other, [language]).keys() & terms


def test_words_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cache of words is bounded, and words stay correct when it is emptied."""
    monkeypatch.setattr(terms, "_REMEMBERED", 100)
    for start in range(0, 1000, 50):
        folded = index_terms(
            "running " + " ".join(f"{n}x" for n in range(start, start + 50)), "en"
        ).split()
        assert folded == ["run", *(f"{n}x" for n in range(start, start + 50))]
        assert len(terms._stems("en")) <= 151


def test_words_of_a_question() -> None:
    """Words are in lower case, with their counts, without stop words and single letters."""
    question = "What is the Port of a Proxy's port?"
    assert query_terms(question, ["en"]) == {"port": 2, "proxi": 1}
    assert query_terms("max_tokens b 漢 é", ["en"]) == {"max": 1, "token": 1, "漢": 1, "e": 1}
    assert query_terms("what is it?", ["en"]) == {}


def test_a_question_to_texts_of_several_languages() -> None:
    """A question has the word forms of each language, but only its own stop words are omitted."""
    assert query_terms("Häuser", ["de", "en"]) == {"haus": 1, "hauser": 1}
    assert query_terms("why do batteries die?", ["de", "en"]).keys() >= {"die", "batteri"}
    assert query_terms("die Katze", ["de", "en"]).keys() == {"katz"}
    assert query_terms("running running", ["de", "en"]) == {"run": 2, "running": 2}


LINES = {
    "en": "The service keeps a copy of every document and searches it when you ask a question.",
    "da": "Tjenesten gemmer en kopi af hvert dokument, og den søger i det, når du spørger.",
    "de": "Der Dienst behält eine Kopie von jedem Dokument und durchsucht sie, wenn du fragst.",
    "es": "El servicio guarda una copia de cada documento y la busca cuando se hace una pregunta.",
    "fi": "Palvelu säilyttää kopion, ja se hakee siitä kun kysyt, mutta ei silloin kun et kysy.",
    "fr": "Le service garde une copie de chaque document et la parcourt quand vous le demandez.",
    "hu": "A szolgáltatás megőrzi a dokumentumot, és abban keres, ha valaki azt kéri.",
    "it": "Il servizio conserva una copia di ogni documento e la cerca quando si fa una domanda.",
    "nl": "De dienst bewaart een kopie van elk document en zoekt daarin als je een vraag hebt.",
    "no": "Tjenesten beholder en kopi av hvert dokument, og den søker i det når dere spør.",
    "pt": "O serviço guarda uma cópia de cada documento e procura nela quando você a faz.",
    "ru": "Служба хранит копию каждого документа и ищет в ней, когда вы её о чём-то спрашиваете.",
    "sv": "Tjänsten behåller en kopia av varje dokument och söker i den när du frågar om något.",
    "tr": "Hizmet her belgenin bir kopyasını saklar ve siz bir şey sorduğunuz zaman ona bakar.",
}


@pytest.mark.parametrize("language", DETECTED)
def test_detection(language: str) -> None:
    """A few sentences suffice to detect a document's language, and a few words a question's."""
    assert stop_words(language)
    assert detect_language(LINES[language]) == language
    assert detect_among(LINES[language], DETECTED) == language


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("ja", "Python3で東京タワーへ行きました。"),
        ("zh", "我喜欢学习中文, Python"),
        ("ko", "고양이는 생선을 먹는다"),
        ("th", "แมวกินปลา"),
        ("en", "The word 東京 is the name of the capital, and it is said Tōkyō."),
    ],
)
def test_detection_by_script(language: str, text: str) -> None:
    assert detect_language(text) == language


@pytest.mark.parametrize("text", ["", "SKU-4711 12,50 €", "42", "der die das"])
def test_what_does_not_say_its_language(text: str) -> None:
    """Texts with hardly any stop words count as English, where words do not change."""
    assert detect_language(text) == "en"


def test_a_question_that_does_not_say_its_language() -> None:
    """The stop words of all languages are omitted from a question of unclear language."""
    assert detect_among("Kubernetes", ["de", "en"]) is None
    assert detect_among("Kubernetes", ["de"]) == "de"
