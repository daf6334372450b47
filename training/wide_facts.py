"""Facts told and asked for in very many ways: attributes of anything, and what people and things do.

A sentence is put together from an opening, a core and an end, a question from a core and what politeness, haste or
habit put around it. The answer is always the plain one, so that how a question is asked does not matter.
"""

# ruff: noqa: E501, SIM905  (phrases in rows are easier to read than lists of them)

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from training import facts, wide, wide_events
from training.wide import Value
from training.wide_events import Event

if TYPE_CHECKING:
    from training.wide_relations import Related
    from training.wide_things import Owned

# -- attributes

NAMED = ("the {a} of {k}", "the {a} for {k}", "{k}'s {a}", "the {a} of {k}", "the {k_} {a}")
TOLD = (
    "{n} is {v}", "{n} is {v}", "{n} is {v}", "{n} is: {v}", "{n} was set to {v}", "{n} has been changed to {v}",
    "{n} turned out to be {v}", "{n} reads {v}", "{v} is {n}", "{v} serves as {n}", "they chose {v} as {n}",
    "{k} has {v} as its {a}", "{k} uses {v} as {a}", "{k} was given the {a} {v}", "{k} comes with the {a} {v}",
    "if anyone asks for {n}, say {v}", "use {v} as {n}", "{k}, whose {a} is {v}, was mentioned too",
    "with {v} as its {a}, {k} stands out", "{n} remains {v}", "{n} will be {v}", "{n} equals {v}", "{n} was {v}",
    "we write {v} for {n}", "{k} got {v} for its {a}", "{n} must be {v}", "{n} happens to be {v}",
    "{n}, as agreed, is {v}", "{n} (double-checked) is {v}", "the {a} listed for {k} is {v}",
    "the {a} that belongs to {k} is {v}", "under {k}, the {a} is given as {v}", "for {k}, the {a} is {v}",
    "as for {k}, its {a} is {v}", "in the case of {k}, {v} is the {a}", "{n} now stands at {v}",
    "the file for {k} shows {v} as the {a}", "{v} has been recorded as {n}", "nobody but us knows that {n} is {v}",
    "{n} can be found in the records: {v}", "the {a} assigned to {k} is {v}", "{k} goes by the {a} {v}",
    "a label on {k} gives {v} as the {a}", "people say {n} is {v}", "{n} = {v}", "{n}: {v}",
)  # fmt: skip
LISTED = (
    "{k}: {a} {v}", "{a} ({k}): {v}", "{k} -> {a}: {v}", "{a}[{k}] = {v}", "{k}; {a}; {v}", "- {k}: {a} = {v}",
    "{k} | {a} | {v}", "* {a} of {k}: {v}", "{k}, {a}, {v}", '"{k}": {{"{a}": "{v}"}}', "<{k}> {a}={v}",
    "set {a} of {k} to {v}", "INFO {a} for {k} set to {v}", "# {k} has {a} {v}", "| {k} | {v} | ({a})",
    "{k}.{a} = '{v}'", "[{k}] {a}: {v}", "{a} / {k} / {v}",
)  # fmt: skip
ASKED = (
    "what is {n}", "what is {n}", "what is {n}", "what's {n}", "tell me {n}", "give me {n}", "I need {n}",
    "do you know {n}", "can you find {n}", "could you look up {n}", "which {a} does {k} have", "which {a} belongs to {k}",
    "what {a} does {k} have", "what {a} was given for {k}", "what did it say {n} was", "remind me of {n}",
    "say what {n} is", "what does the text give as {n}", "{n}, please", "{n}", "what do we know about {n}",
    "under {k}, what is listed as the {a}", "someone asks for {n}. What do you answer", "extract {n}", "report {n}",
    "what should I write down for {n}", "I forgot {n}", "I'm looking for {n}", "find {n}", "how much or what is {n}",
    "can I have {n}", "what would {n} be", "what was {n}", "name {n}", "state {n}", "{k}: what is the {a}",
    "regarding {k}, what is the {a}", "for {k}, which {a} applies", "let me know {n}", "is {n} mentioned? What is it",
    "what value is given for {n}", "what exactly is {n}", "the text mentions {n}. What is it", "what has {k} as its {a}",
    "what number, word or name is {n}", "{a} of {k}", "{a} for {k}", "{k} {a}", "value of {a} for {k}",
    "do you remember {n}", "please recall {n}", "I would like to know {n}", "what is the {a} that {k} has",
    "what is the {a} of the one called {k}", "show {n}", "look for {n} and tell me", "retrieve {n}", "answer this: what is {n}",
    "fill in the blank: {n} is ___", "complete the sentence: {n} is", "which one is {n}", "would you mind telling me {n}",
    "what do I enter for {n}", "{n} is", "what is {n}? Well, {n} is", "help me find {n}", "any idea what {n} is", "and {n}", "now {n}", "{k}? I mean the {a}",
)  # fmt: skip
# Facts that belong to nobody.
TOLD_ALONE = (
    "the {a} is {v}", "the {a} is {v}", "our {a} is {v}", "the {a} has been set to {v}", "{v} is the {a}", "the {a}: {v}",
    "use {v} as the {a}", "the {a} you will need is {v}", "the {a} is now {v}", "the {a} turned out to be {v}", "{a}={v}",
    "the {a} I told you about is {v}", "I chose {v} as the {a}", "there is one {a} here, and it is {v}", "the {a} was {v}",
    "please memorize the {a}: {v}", "the {a} that opens everything is {v}", "the {a} never changes: {v}", "the {a} = {v}",
)  # fmt: skip
ASKED_ALONE = (
    "what is the {a}", "what is the {a}", "what was the {a}", "which {a} is mentioned", "tell me the {a}", "the {a}?",
    "what {a} did I mention", "give me the {a} from the text", "what is the {a} in the text", "find the {a}", "{a}",
    "do you remember the {a}", "I need the {a}", "what did the text say the {a} is", "repeat the {a}", "say the {a}",
    "there was a {a} in there. What was it", "what's the {a}", "what is our {a}", "please state the {a}",
)  # fmt: skip

# -- what people and things do: statements, questions, a yes-or-no question, the answer

WHO, WHAT, PLACE = "who", "what", "place"
RELATIONS: tuple[tuple[str, Value, Sequence[str], Sequence[str], str, str], ...] = (
    (WHO, wide.town, ("{k} lives in {v}", "{k} has settled in {v}", "{k} calls {v} home", "{v} is where {k} lives",
     "home for {k} is {v}", "{k} moved to {v} for good", "{k}, a resident of {v}, agreed", "these days {k} resides in {v}"),
     ("where does {k} live", "in which city does {k} live", "which town is home to {k}", "what place does {k} call home",
      "where is {k} living", "{k} lives where", "in what town would I find the home of {k}", "where is {k}'s home"),
     "does {k} live in {v}", "{k} lives in {v}"),
    (WHO, lambda rng: rng.choice(facts.JOBS), ("{k} works as a {v}", "{k} is a {v} by trade", "{k} earns a living as a {v}",
     "{k} became a {v}", "{k}, a {v}, came in", "by profession {k} is a {v}", "they hired {k} as a {v}"),
     ("what does {k} do for a living", "what is {k}'s job", "what job does {k} have", "what profession has {k}",
      "what is {k} by trade", "as what does {k} work", "which occupation does {k} follow", "how does {k} earn money"),
     "does {k} work as a {v}", "{k} works as a {v}"),
    (WHO, lambda rng: rng.choice(facts.ANIMALS), ("{k} has a pet {v}", "{k} keeps a {v} at home", "{k} owns a {v}",
     "the {v} belongs to {k}", "{k} takes care of a {v}", "{k} bought a {v} last year"),
     ("what pet does {k} have", "which animal does {k} keep", "what animal belongs to {k}", "what kind of pet is {k}'s",
      "which animal lives with {k}", "what creature does {k} own"), "does {k} have a pet {v}", "{k} has a pet {v}"),
    (WHO, wide.year, ("{k} was born in {v}", "{k} came into the world in {v}", "{k}'s year of birth is {v}",
     "in {v}, {k} was born", "{k} (born {v}) signed it", "the birth of {k} dates from {v}"),
     ("when was {k} born", "in what year was {k} born", "what year did {k} come into the world", "what is {k}'s birth year",
      "which year saw the birth of {k}", "{k} was born when"), "was {k} born in {v}", "{k} was born in {v}"),
    (WHO, wide.colour, ("{k} drives a {v} car", "{k}'s car is {v}", "the car of {k} is {v}", "{k} painted the car {v}",
     "{k} came in a {v} car", "{k} parked a {v} car outside"),
     ("what color is {k}'s car", "which color does the car of {k} have", "in what color of car does {k} drive around",
      "what is the color of {k}'s car", "how is {k}'s car painted"), "is {k}'s car {v}", "{k}'s car is {v}"),
    (WHO, wide.thing, ("{k} lost {v}", "{k} can no longer find {v}", "{v} went missing, and {k} had it last",
     "{k} has mislaid {v}", "{k} misplaced {v}"),
     ("what did {k} lose", "what has {k} lost", "what can {k} no longer find", "which thing did {k} lose", "what went missing"
      " from {k}"), "did {k} lose {v}", "{k} lost {v}"),
    (WHO, wide.thing, ("{k} bought {v}", "{k} paid for {v}", "{v} was purchased by {k}", "{k} came back with {v}",
     "{k} spent everything on {v}", "{k} picked up {v} at the shop"),
     ("what did {k} buy", "what has {k} bought", "which thing was purchased by {k}", "what did {k} pay for",
      "what did {k} purchase", "on what did {k} spend money"), "did {k} buy {v}", "{k} bought {v}"),
    (WHO, lambda rng: rng.choice(facts.FOODS + facts.FRUITS), ("{k} likes {v} best", "{k} prefers {v}", "{k} loves {v}",
     "{k} always orders {v}", "nothing tastes better to {k} than {v}", "{k}'s favorite food is {v}"),
     ("what does {k} like to eat", "what food does {k} prefer", "what is {k}'s favorite food", "what does {k} always order",
      "what does {k} like best", "which dish does {k} love"), "does {k} prefer {v}", "{k} likes {v} best"),
    (WHO, wide.person, ("{k} is married to {v}", "{k} married {v}", "{v} is the spouse of {k}", "{k} and {v} got married",
     "{k} shares life with {v}"),
     ("who is {k} married to", "who did {k} marry", "what is the name of {k}'s spouse", "to whom is {k} married",
      "who is the husband or wife of {k}"), "is {k} married to {v}", "{k} is married to {v}"),
    (WHO, wide.person, ("{k} reports to {v}", "{v} is the boss of {k}", "{k}'s manager is {v}", "{k} works for {v}",
     "{v} supervises {k}"),
     ("who does {k} report to", "who is {k}'s boss", "who supervises {k}", "for whom does {k} work", "who manages {k}"),
     "does {k} report to {v}", "{k} reports to {v}"),
    (WHO, lambda rng: rng.choice(facts.INSTRUMENTS), ("{k} plays the {v}", "{k} practices the {v} every day",
     "{k} is learning the {v}", "{k} performs on the {v}", "you can hear {k} on the {v}"),
     ("what instrument does {k} play", "which instrument is {k} learning", "what does {k} play", "on which instrument does"
      " {k} perform"), "does {k} play the {v}", "{k} plays the {v}"),
    (WHO, lambda rng: rng.choice(("French", "German", "Polish", "Swahili", "Greek", "Hindi", "Korean", "Dutch", "Finnish")),
     ("{k} speaks {v}", "{k} is fluent in {v}", "{k} grew up speaking {v}", "{k} talks to everyone in {v}"),
     ("what language does {k} speak", "which language is {k} fluent in", "in what language does {k} talk",
      "what tongue does {k} speak"), "does {k} speak {v}", "{k} speaks {v}"),
    (WHO, wide.clock, ("{k} arrives at {v}", "{k} will get here at {v}", "we expect {k} at {v}", "{k} is due at {v}",
     "{k} promised to come at {v}"),
     ("when does {k} arrive", "at what time will {k} come", "what time is {k} due", "when do we expect {k}",
      "when will {k} get here"), "does {k} arrive at {v}", "{k} arrives at {v}"),
    (WHO, lambda rng: rng.choice(facts.SPORTS), ("{k} is good at {v}", "{k} does {v} in the evening", "{k} took up {v}",
     "{k}'s sport is {v}", "{k} trains {v} twice a week"),
     ("what sport does {k} do", "which sport did {k} take up", "what is {k}'s sport", "what does {k} train"),
     "does {k} do {v}", "{k}'s sport is {v}"),
    (WHO, wide.thing, ("{k} hid the letter behind {v}", "{k} put the letter behind {v}", "the letter of {k} is behind {v}",
     "behind {v} lies the letter that {k} hid"),
     ("where did {k} hide the letter", "where is the letter of {k}", "where did {k} put the letter", "behind what is the"
      " letter that {k} hid"), "did {k} hide the letter behind {v}", "{k} hid the letter behind {v}"),
    (WHAT, wide.price, ("{k} costs {v}", "{k} sells for {v}", "you can get {k} for {v}", "the price tag on {k} says {v}",
     "they ask {v} for {k}", "{k} goes for {v}", "to buy {k} you pay {v}", "{k} was sold for {v}"),
     ("how much is {k}", "how much does {k} cost", "what does {k} cost", "what is the price of {k}", "how much do they ask for"
      " {k}", "what would I pay for {k}", "for how much can I get {k}", "what does {k} sell for"),
     "does {k} cost {v}", "{k} costs {v}"),
    (WHAT, wide.unit("kg", "grams", "tons", "pounds"), ("{k} weighs {v}", "{k} has a weight of {v}", "{k} comes to {v} on the"
     " scale", "the scale showed {v} for {k}", "{k} is {v} heavy"),
     ("how heavy is {k}", "how much does {k} weigh", "what is the weight of {k}", "what does {k} weigh", "what did the scale"
      " show for {k}"), "does {k} weigh {v}", "{k} weighs {v}"),
    (WHAT, wide.unit("meters", "feet", "km", "cm"), ("{k} is {v} long", "{k} has a length of {v}", "{k} measures {v}",
     "from end to end {k} is {v}"),
     ("how long is {k}", "what is the length of {k}", "how much does {k} measure", "what length does {k} have"),
     "is {k} {v} long", "{k} is {v} long"),
    (WHAT, wide.unit("meters", "feet", "inches"), ("{k} is {v} tall", "{k} rises {v} high", "{k} reaches a height of {v}",
     "{k} stands {v} high"), ("how tall is {k}", "how high is {k}", "what is the height of {k}", "what height does {k} reach"),
     "is {k} {v} tall", "{k} is {v} tall"),
    (WHAT, wide.colour, ("{k} is {v}", "{k} is painted {v}", "they painted {k} {v}", "{k} has a {v} coat of paint",
     "the color of {k} is {v}"),
     ("what color is {k}", "which color does {k} have", "how is {k} painted", "what is the color of {k}", "in which color was"
      " {k} painted"), "is {k} {v}", "{k} is {v}"),
    (WHAT, wide.site, ("{k} is at {v}", "{k} is kept at {v}", "{k} can be found at {v}", "we left {k} at {v}",
     "{k} stands at {v}", "go to {v} for {k}", "{k} was moved to {v}", "{v} is where {k} is"),
     ("where is {k}", "where can I find {k}", "where is {k} kept", "at what place is {k}", "where did we leave {k}",
      "where should I look for {k}", "what is the location of {k}", "{k} is where"), "is {k} at {v}", "{k} is at {v}"),
    (WHAT, wide.person, ("{k} belongs to {v}", "{v} owns {k}", "the owner of {k} is {v}", "{k} is the property of {v}",
     "{k} is {v}'s"),
     ("who owns {k}", "whose is {k}", "to whom does {k} belong", "who is the owner of {k}", "whose property is {k}"),
     "does {k} belong to {v}", "{k} belongs to {v}"),
    (WHAT, wide.person, ("{v} built {k}", "{k} was made by {v}", "{k} is the work of {v}", "{v} designed {k}",
     "it was {v} who created {k}"),
     ("who built {k}", "who made {k}", "who designed {k}", "who is behind {k}", "whose work is {k}", "who created {k}"),
     "did {v} build {k}", "{v} built {k}"),
    (WHAT, wide.person, ("{v} found {k}", "{k} was discovered by {v}", "{v} came across {k}", "{v} was the first to see {k}"),
     ("who found {k}", "who discovered {k}", "who came across {k}", "by whom was {k} found"),
     "did {v} find {k}", "{v} found {k}"),
    (WHAT, wide.date, ("{k} opens on {v}", "{k} will be opened on {v}", "the opening of {k} is on {v}", "on {v}, {k} opens"),
     ("when does {k} open", "on which day does {k} open", "what is the opening day of {k}", "when will {k} be opened"),
     "does {k} open on {v}", "{k} opens on {v}"),
    (WHAT, wide.clock, ("{k} leaves at {v}", "{k} departs at {v}", "the departure of {k} is at {v}", "at {v}, {k} leaves",
     "be there by {v}, when {k} leaves"),
     ("when does {k} leave", "what time does {k} depart", "at what hour does {k} leave", "when is the departure of {k}"),
     "does {k} leave at {v}", "{k} leaves at {v}"),
    (WHAT, wide.year, ("{k} was built in {v}", "{k} dates from {v}", "they finished {k} in {v}", "the construction of {k} ended in"
     " {v}"), ("when was {k} built", "from what year is {k}", "in which year was {k} finished", "how old is {k}: what year is it"
     " from"), "was {k} built in {v}", "{k} was built in {v}"),
    (WHAT, lambda rng: rng.choice(facts.MATERIALS), ("{k} is made of {v}", "{k} consists of {v}", "they built {k} from {v}",
     "the material of {k} is {v}"),
     ("what is {k} made of", "of what does {k} consist", "which material is {k}", "what did they build {k} from"),
     "is {k} made of {v}", "{k} is made of {v}"),
    (WHAT, wide.noun, ("{k} contains a {v}", "there is a {v} inside {k}", "inside {k} is a {v}", "someone put a {v} into {k}",
     "{k} holds a {v}"),
     ("what is inside {k}", "what does {k} contain", "what is in {k}", "what did someone put into {k}", "what does {k} hold"),
     "does {k} contain a {v}", "{k} contains a {v}"),
    (PLACE, wide.unit("people", "inhabitants"), ("{k} has {v}", "{k} is home to {v}", "there are {v} in {k}", "{v} live in {k}"),
     ("how many people live in {k}", "how large is the population of {k}", "how many inhabitants has {k}",
      "what is the population of {k}"), "does {k} have {v}", "{k} has {v}"),
    (PLACE, wide.deed, ("the best thing to do in {k} is to {v}", "when you are in {k}, you should {v}",
     "visitors of {k} like to {v}", "in {k}, people {v}", "nothing beats this in {k}: {v}", "my tip for {k}: {v}"),
     ("what is the best thing to do in {k}", "what should I do in {k}", "what do people do in {k}", "what do visitors of {k}"
      " like to do", "what is the tip for {k}", "how should I spend my time in {k}", "what is fun in {k}"),
     "should I {v} in {k}", "In {k}, you should {v}"),
    (PLACE, wide.person, ("the mayor of {k} is {v}", "{v} runs the town of {k}", "{k} elected {v} as mayor", "{v} governs {k}"),
     ("who is the mayor of {k}", "who runs the town of {k}", "whom did {k} elect as mayor", "who governs {k}"),
     "is {v} the mayor of {k}", "The mayor of {k} is {v}"),
)  # fmt: skip

BEFORE = (
    """by the way,|note that|remember:|remember that|keep in mind that|as I said,|for the record,|fun fact:|P.S.|it is known
that|we learned that|someone told me that|for what it's worth,|according to the notes,|important:|attention:|one more thing:|also,|
in case you need it,|it turns out that|as of today,|please note:|I was told that|they say|oh, and|just so you know,|in short,|
update:|reminder:|between us,|my notes say|the sign says:|he wrote that|she added that|the letter said that|to be clear,|
meanwhile,|incidentally,|on another note,|before I forget:|from what I hear,|it should be said that|yesterday we heard that|
the guide explained that|somewhere it was written that|psst,|hint:|NB:|FYI,|the report states that|as everyone agreed,|
and then:|it so happens that|do not forget that|listen:|you may want to know that|in fact,|well,|honestly,""".replace(
        "|\n", "|"
    )
    .replace("\n", " ")
    .split("|")
)
BEHIND = (
    """, by the way|, as far as I know|, for now|, so remember it|, which surprised everyone|, I think| at the moment|, they say|
, and that is final|, as you asked|, no doubt|, according to the office| these days|, please remember|, of course""".replace(
        "|\n", "|"
    )
    .replace("\n", " ")
    .split("|")
)
ASK_BEFORE = (
    """please,|so,|ok,|hey,|hi,|quick question:|question:|now,|well,|one thing:|I was wondering,|based on the text,|according to the
text,|according to what I told you,|from the above,|in the text,|using the notes,|given all that,|sorry,|um,|tell me,|
could you tell me,|do you know|can you tell me,|remember?|from what you read,|as stated above,|from the passage,|
looking at the document,|Q:|Question:|next,|and|last question:|only one question:|help me out,|be honest,|
judging by the text,|with the information given,""".replace("|\n", "|")
    .replace("\n", " ")
    .split("|")
)
ASK_BEHIND = (
    """, please|, thanks|, according to the text|, as mentioned|, if you know| again|, exactly| in the text|, do you remember|
 according to this| from the above|, based on the document|, I forgot| mentioned above| in what I sent you|, quickly""".replace(
        "|\n", "|"
    )
    .replace("\n", " ")
    .split("|")
)
BARE = (
    "Answer with the value only.", "Just the answer, no sentence.", "Only the value, please.", "Reply with nothing else.",
    "One word or number is enough.", "Give only the answer.", "No explanation.", "Answer briefly.", "Short answer.",
    "Be as brief as possible.", "Output the value and nothing else.", "Just that, nothing more.", "(answer only)",
)  # fmt: skip


@dataclass(frozen=True)
class Fact:
    """`relation` is an index into RELATIONS, or -1 for an attribute; an attribute's key may be empty."""

    key: str
    attribute: str
    value: str
    relation: int = -1

    @property
    def about(self) -> tuple[str, str]:
        return self.key, self.attribute if self.relation < 0 else str(self.relation)

    def told(self, rng: Random) -> str:
        """A sentence, with its full stop."""
        return framed(self._core(rng), rng)

    def _core(self, rng: Random) -> str:
        if self.relation >= 0:
            return rng.choice(RELATIONS[self.relation][2]).format(k=self.key, v=self.value)
        return rng.choice(TOLD if self.key else TOLD_ALONE).format(**self._slots(rng))

    def _slots(self, rng: Random) -> dict[str, str]:
        bare = re.sub(r"^the ", "", self.key)
        named = rng.choice(NAMED if self.key.startswith("the ") else NAMED[:4])
        named = named.format(a=self.attribute, k=self.key, k_=bare)
        return {"a": self.attribute, "k": self.key, "v": self.value, "n": named}

    def listed(self, form: str) -> str:
        return form.format(a=self.attribute, k=self.key, v=self.value)

    def asked(self, rng: Random) -> tuple[str, str]:
        """The question and its answer: the plain sentence, or the value alone where that is asked for."""
        if self.relation >= 0:
            text = rng.choice(RELATIONS[self.relation][3]).format(k=self.key)
        else:
            text = rng.choice(ASKED if self.key else ASKED_ALONE).format(**self._slots(rng))
        return asked_for(text, self.answer, self.value, (self.key, self.attribute), rng)

    def yes_or_no(self, rng: Random, other: str) -> tuple[str, str, bool]:
        """Question, answer, and whether it is yes; `other` is a value that is wrong."""
        right = rng.random() < 0.5
        value = self.value if right else other
        if self.relation >= 0:
            text = RELATIONS[self.relation][4].format(k=self.key, v=value)
            plain = self._plain(value)
        else:
            text = f"is {self._slots(rng)['n'] if self.key else 'the ' + self.attribute} {value}"
            plain = self._plain(value)
        return yes_no(text, plain, self.answer, right, rng)

    def _plain(self, value: str) -> str:
        if self.relation >= 0:
            return capital(RELATIONS[self.relation][5].format(k=self.key, v=value))
        return f"The {self.attribute} of {self.key} is {value}" if self.key else f"The {self.attribute} is {value}"

    @property
    def answer(self) -> str:
        return self._plain(self.value) + "."


@dataclass(frozen=True)
class Told:
    """An event, told and asked for as facts are."""

    event: Event

    @property
    def key(self) -> str:
        return self.event.key

    @property
    def value(self) -> str:
        return self.event.value

    relation = 0
    attribute = ""

    @property
    def about(self) -> tuple[str, str]:
        return self.event.about

    @property
    def answer(self) -> str:
        return capital(self.event.sentence(self.value)) + "."

    def told(self, rng: Random) -> str:
        return framed(self.event.core(rng), rng)

    def asked(self, rng: Random) -> tuple[str, str]:
        keep = (self.event.key, self.event.thing)
        return asked_for(self.event.question(rng), self.answer, self.value, keep, rng)

    def yes_or_no(self, rng: Random, other: str) -> tuple[str, str, bool]:
        right = rng.random() < 0.5
        plain = self.event.sentence(self.value if right else other)
        return yes_no(f"is it right that {plain}", plain, self.answer, right, rng)


def framed(text: str, rng: Random) -> str:
    if rng.random() < 0.45:
        text = f"{rng.choice(BEFORE)} {text}"
    if rng.random() < 0.12:
        text += rng.choice(BEHIND)
    return capital(text) + rng.choice((".", ".", ".", ".", ".", ".", "!"))


def asked_for(text: str, answer: str, value: str, keep: Sequence[str], rng: Random) -> tuple[str, str]:
    """The question with what people put around it, and the answer: the value alone where that is asked for."""
    draw = rng.random()
    if draw < 0.2:
        text = f"{rng.choice(ASK_BEFORE)} {text}"
    elif draw < 0.3:
        text += rng.choice(ASK_BEHIND)
    if not text.endswith(("?", "is", "___")):
        text += rng.choice(("?", "?", "?", "?", "", ".", "??", " ?"))
    if rng.random() < 0.18:
        text, answer = f"{text} {rng.choice(BARE)}", capital(value)
    text = capital(text) if rng.random() < 0.75 else text
    return typed(text, rng, keep), answer


def yes_no(text: str, plain: str, answer: str, right: bool, rng: Random) -> tuple[str, str, bool]:
    plain, answer = (_lower(one) for one in (plain, answer))
    draw = rng.random()
    if draw < 0.12:
        text = f"is it true that {plain}"
    elif draw < 0.2:
        text = f"{plain}, right"
    elif draw < 0.28:
        text = f"yes or no: {text}"
    elif draw < 0.34:
        text = f"did I say that {plain}"
    elif draw < 0.4:
        text = f"{plain}. True or false"
    return capital(text) + "?", f"{'Yes' if right else 'No'}, {answer}", right


def _lower(text: str) -> str:
    return text[0].lower() + text[1:] if text.startswith(("The ", "In ", "It ", "There ", "At ", "On ")) else text


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def typed(text: str, rng: Random, keep: Sequence[str] = ()) -> str:
    """As fingers have it: no capitals now and then, a slip in a word that is not among those to keep."""
    draw = rng.random()
    if draw < 0.07:
        return text.lower()
    if draw < 0.08:
        return text.upper()
    if draw < 0.13:
        kept = " ".join(keep)
        words = text.split(" ")
        places = [at for at, word in enumerate(words) if len(word) > 3 and word.isalpha() and word not in kept]
        if places:
            at = rng.choice(places)
            words[at] = slip(words[at], rng)
        return " ".join(words)
    return text


def slip(word: str, rng: Random) -> str:
    at = rng.randrange(1, len(word) - 1)
    form = rng.randrange(3)
    if form == 0:
        return word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    return word[:at] + word[at + 1 :] if form == 1 else word[:at] + word[at] + word[at:]


def key(rng: Random, kind: str = "") -> str:
    kind = kind or rng.choice((WHO, WHAT, WHAT, PLACE, "label", "label"))
    if kind == WHO:
        return wide.person(rng)
    if kind == WHAT:
        return wide.thing(rng)
    return rng.choice((wide.town, wide.site))(rng) if kind == PLACE else wide.label(rng)


def draw(rng: Random) -> Fact:
    form = rng.random()
    if form < 0.5:
        at = rng.randrange(len(RELATIONS))
        kind, value = RELATIONS[at][:2]
        return Fact(key(rng, kind), "", value(rng), at)
    name, value = wide.attribute(rng)
    return Fact("" if form > 0.92 else key(rng), name, value(rng))


def another(fact: Fact | Told | Related | Owned, rng: Random) -> str:
    """A value of the same kind that is not the fact's."""
    if isinstance(fact, Told):
        return fact.event.another(rng)
    if not isinstance(fact, Fact):
        return fact.another(rng)
    value = RELATIONS[fact.relation][1] if fact.relation >= 0 else wide.HEADS[_head(fact.attribute)]
    while (found := value(rng)) == fact.value:
        pass
    return found


def _head(attribute: str) -> str:
    return attribute if attribute in wide.HEADS else attribute.split(" ", 1)[1] and _head(attribute.split(" ", 1)[1])


def some(rng: Random, count: int) -> list[Fact | Told | Related | Owned]:
    """Different facts; about half are near misses of others: the same kind of key, the same attribute."""
    from training import wide_relations, wide_things

    found: dict[tuple[str, str], Fact | Told | Related | Owned] = {}
    while len(found) < count:
        form = rng.random()
        fact: Fact | Told | Related | Owned = draw(rng) if form < 0.3 else wide_relations.draw(rng)
        if form > 0.87:
            fact = Told(wide_events.draw(rng))
        elif form > 0.6:
            fact = wide_things.draw(rng)
        if found and rng.random() < 0.5:
            near = rng.choice(list(found.values()))
            if isinstance(near, Told):
                fact = Told(wide_events.draw(rng, near.event))
            elif isinstance(near, wide_things.Owned):
                fact = wide_things.draw(rng, near)
            elif not isinstance(near, Fact):
                fact = wide_relations.draw(rng, [near.number])
            elif near.relation >= 0:
                kind, value = RELATIONS[near.relation][:2]
                fact = Fact(key(rng, kind), "", value(rng), near.relation)
            elif near.key:
                same = rng.random() < 0.4
                name = near.attribute if not same else wide.attribute(rng)[0]
                fact = Fact(near.key if same else key(rng), name, wide.HEADS[_head(name)](rng))
        found.setdefault(fact.about, fact)
    return list(found.values())
