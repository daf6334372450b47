"""Questions about pictures. The answer is never in the words: it depends on what is drawn."""

from __future__ import annotations

from random import Random

from training import facts, pictures
from training.data_chat import Chat, Phrases, Picture, Split, Turn, held
from training.pictures import Group

COUNTED = facts.NUMBERS


def said(group: Group) -> str:
    """Such as: three red circles."""
    return f"{COUNTED[group.count]} {group.colour} {named(group)}"


def named(group: Group) -> str:
    return group.shape if group.count == 1 else facts.plural(group.shape)


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


_what = Phrases(
    "What is shown?",
    "Describe it.",
    "What do we have here?",
    "Tell me about this picture.",
    "What is in here?",
    "Explain what you see.",
    "Give me a description.",
    "What is on the picture?",
    "Please tell me what this shows.",
    "what do you see",
    "Say what is in the image.",
    "What does the image contain?",
    "Can you describe this?",
    "What am I looking at?",
    "Caption this picture.",
    "Name what you see here.",
    "In one sentence: what is this?",
    "What is in the picture?", "Describe the picture.", "What do you see?", "What does this picture show?",
    "Tell me what you see.",
    "What is this?", "Please describe this image.", "What can you see in the image?", "What's in this image?",
    "Look at this. What is it?",
    "Describe what is shown here.", "What is drawn here?",
)  # fmt: skip
_how_many = Phrases(
    "Count all {}.",
    "The number of {}?",
    "How many {} are shown here?",
    "how many {}",
    "Can you count the {}?",
    "Give me the number of {}.",
    "I want to know how many {} there are.",
    "How many {} does the picture have?",
    "Number of {} in this image?",
    "Are there many {}? How many?",
    "Find out how many {} are drawn.",
    "Please tell me the number of {}.",
    "What count of {} do you get?",
    "How many {} have been drawn?",
    "How many {} are there?", "How many {} do you see?", "Count the {}.", "How many {} are in the picture?",
    "What is the number of {}?",
    "Tell me how many {} there are.", "How many {} can you count?", "Please count the {} in this image.",
)  # fmt: skip
_which_colour = Phrases(
    "The color?",
    "What color do you see?",
    "Which color is used?",
    "In what color are the shapes drawn?",
    "Can you name the color?",
    "what color",
    "Say the color of what you see.",
    "What is their color?",
    "Which color is in the picture?",
    "Color of the shapes?",
    "I want to know the color.",
    "Please tell me which color this is.",
    "How would you call this color?",
    "What color has been used?",
    "What color are the shapes?", "Which color do you see?", "What color is it?", "Name the color of the shapes.",
    "What is the color?",
    "Which color do the shapes have?", "Tell me the color.", "What colour are they?",
)  # fmt: skip
_which_shape = Phrases(
    "The shape?",
    "what shape",
    "What form do you see?",
    "Which shape is in the picture?",
    "Can you name the shape?",
    "What is the shape called?",
    "Say which shape it is.",
    "Is it a circle, a square or something else?",
    "I want to know the shape.",
    "Please tell me which shape this is.",
    "What kind of shape do you see?",
    "Shape in the image?",
    "What is drawn, which shape?",
    "Of what shape are the things here?",
    "Give me the name of the shape.",
    "What shape is it?", "Which shape do you see?", "What kind of shape is in the picture?", "Name the shape.",
    "Tell me the shape.",
    "What shapes are these?", "Which kind of shape is drawn?",
)  # fmt: skip
_is_there = Phrases(
    "Any {} {}?",
    "Do you find a {} {} in it?",
    "Is a {} {} in the picture?",
    "Are there {} {} shapes?",
    "Does it show a {} {}?",
    "Can you find a {} {}?",
    "I look for a {} {}. Is it there?",
    "Is this a {} {}?",
    "A {} {}: yes or no?",
    "Please check: is there a {} {}?",
    "Would you say there is a {} {}?",
    "Do we have a {} {} in this image?",
    "is there a {} {}",
    "Tell me if you see a {} {}.",
    "Could that be a {} {}?",
    "Is there a {} {} in the picture?", "Do you see a {} {}?", "Can you see a {} {}?", "Does the picture show a {} {}?",
    "Is a {} {} shown?", "Is there any {} {} here?",
)  # fmt: skip
_where = Phrases(
    "Where on the picture is the {}?",
    "where is the {}",
    "The {}: where is it?",
    "In which corner or side is the {}?",
    "At what place is the {}?",
    "Locate the {}.",
    "Can you say where the {} is?",
    "Which place does the {} have?",
    "I cannot see the {}. Where is it?",
    "Show me the place of the {}.",
    "Where is the {}?", "In which part of the picture is the {}?", "Where do you see the {}?",
    "What is the position of the {}?",
    "Tell me where the {} is.", "Find the {}. Where is it?",
)  # fmt: skip
_read = Phrases(
    "Please read it.",
    "What word is this?",
    "Read this.",
    "what does it say",
    "Which text is shown?",
    "What is the word?",
    "Say the word.",
    "What do the letters say?",
    "Can you read this?",
    "Give me the text of this image.",
    "What is printed here?",
    "The word, please.",
    "What does it say?", "Read the word.", "Which word is written here?", "What is written in the picture?",
    "Read the text.",
    "Tell me the word in the image.", "What text do you see?",
)  # fmt: skip
_more = Phrases(
    "More shapes: first or second?",
    "Which one has more shapes?",
    "Count both. Which has more?",
    "Does the first or the second picture have more shapes?",
    "Tell me which picture has more.",
    "which picture has more",
    "Where do you count more shapes?",
    "Which image contains more shapes?",
    "Please compare: where is more?",
    "Of the two pictures, which has the larger number of shapes?",
    "Which picture is fuller?",
    "Who has more, picture one or picture two?",
    "The picture with more shapes?",
    "Find the picture with more shapes.",
    "Which picture has more shapes?", "Which picture shows more things?",
    "Where are more shapes, in the first or the second picture?",
    "Compare the two pictures: which one has more shapes?", "Is there more in the first or in the second picture?",
    "Which of the two has more?", "In which picture do you count more shapes?",
)  # fmt: skip
_same = Phrases(
    "Is it the same {} in the two pictures?",
    "Have both pictures one {}?",
    "Is the {} equal?",
    "Does the {} stay the same?",
    "Compare: is the {} the same?",
    "Do the pictures agree in {}?",
    "Tell me whether the {} is the same.",
    "Are they alike in {}?",
    "Is there a difference in {}, or is it the same?",
    "Do the pictures share the {}?",
    "the same {}, yes or no?",
    "Is the {} of the first picture also the one of the second?",
    "Look at the {}: is it the same in both?",
    "Does the second picture have the {} of the first?",
    "Do the two pictures have the same {}?", "Is the {} the same in both pictures?",
    "Compare the {} of the two pictures. Is it the same?",
    "Do both pictures show the same {}?", "Are the two pictures of the same {}?", "Same {} in both?",
)  # fmt: skip
_both = Phrases(
    "Describe each picture.",
    "What does each of them show?",
    "Tell me about the two pictures.",
    "What are these two pictures of?",
    "First picture, second picture: what do they show?",
    "Say what is in each image.",
    "Look at both. What do you see?",
    "What is the difference between the pictures?",
    "Please describe the two images.",
    "what do the two pictures show",
    "One sentence about both pictures.",
    "What is in the two pictures?", "Describe both pictures.", "What do the pictures show?",
    "Tell me what each picture shows.",
    "What do you see in the first and in the second picture?", "Describe the first and the second image.",
    "Compare the two pictures.",
)  # fmt: skip
_which_shows = Phrases(
    "Which one shows {}?",
    "Which picture has {}?",
    "Where do you see {}?",
    "Is it the first or the second that shows {}?",
    "Look for {}. Which picture is it?",
    "{}: first or second picture?",
    "The picture with {}?",
    "Tell me which picture shows {}.",
    "which picture shows {}",
    "Please find {}. Which picture?",
    "On which of the pictures is {}?",
    "Point out the picture with {}.",
    "Which image has {} in it?",
    "Which picture shows {}?", "In which picture do you see {}?", "Where is {}, in the first or the second picture?",
    "Which of the two pictures has {}?", "Find {}: first or second picture?", "Which image shows {}?",
)  # fmt: skip


def what(rng: Random, split: Split) -> str:
    return _what.pick(rng, split)


def about_group(group: Group, rng: Random, split: Split) -> tuple[str, str, str]:
    """(question, answer, what a checker looks for) about a picture of one group."""
    many = named(group)
    asked = rng.choice(("what", "count", "colour", "shape", "is", "what", "count"))
    if asked == "what":
        return _what.pick(rng, split), _capital(said(group)) + ".", said(group)
    if asked == "count":
        things = rng.choice(("shapes", facts.plural(group.shape)))
        verb = "is" if group.count == 1 else "are"
        return (
            _how_many.pick(rng, split).format(things),
            f"There {verb} {COUNTED[group.count]} {many}.",
            COUNTED[group.count],
        )
    if asked == "colour":
        answer = f"The {many} {'is' if group.count == 1 else 'are'} {group.colour}."
        return _which_colour.pick(rng, split), answer, group.colour
    if asked == "shape":
        return (
            _which_shape.pick(rng, split),
            f"It is a {group.shape}." if group.count == 1 else f"They are {many}.",
            many,
        )
    shape, colour = group.shape, group.colour
    truth = rng.random() < 0.5
    if not truth:
        if rng.random() < 0.5:
            shape = rng.choice([other for other in pictures.SHAPES if other != shape])
        else:
            colour = rng.choice([other for other in pictures.COLOURS if other != colour])
    answer = (
        f"Yes, there {'is' if group.count == 1 else 'are'} {said(group)}." if truth else f"No, I see {said(group)}."
    )
    return _is_there.pick(rng, split).format(colour, shape), answer, "Yes" if truth else "No"


def _chat(
    shown: list[Picture],
    asked: list[tuple[str, str]],
    combination: tuple[object, ...],
    kind: str,
    expect: str,
    rng: Random,
) -> Chat:
    turns = []
    for place, (question, answer) in enumerate(asked):
        turns += [Turn("user", question, pictures=shown if place == 0 else ()), Turn("assistant", answer)]
    return Chat(turns, kind, combination, expect=expect)


def one_group(rng: Random, split: Split, questions: int | None = None) -> Chat:
    """The figure that counts: shape, colour and number."""
    group = pictures.draw_group(rng, split)
    asked = [about_group(group, rng, split) for _ in range(questions or rng.randint(1, 4))]
    shown = [pictures.shapes([group], rng)]
    combination = (group.shape, group.colour, group.count)
    return _chat(shown, [one[:2] for one in asked], combination, "picture", asked[-1][2], rng)


def two_groups(rng: Random, split: Split, questions: int | None = None) -> Chat:
    """Two kinds of things in one picture."""
    while True:
        one, other = pictures.draw_group(rng, split, 4), pictures.draw_group(rng, "train", 4)
        if one.shape != other.shape and one.colour != other.colour:
            break
    asked = []
    for _ in range(questions or rng.randint(1, 4)):
        chosen = rng.choice((one, other))
        form = rng.randrange(4)
        if form == 0:
            first, second = sorted((one, other), key=lambda group: pictures.SHAPES.index(group.shape))
            asked.append((_what.pick(rng, split), f"{_capital(said(first))} and {said(second)}.", said(first)))
        elif form == 1:
            number = COUNTED[chosen.count]
            verb = "is" if chosen.count == 1 else "are"
            question = _how_many.pick(rng, split).format(f"{chosen.colour} {facts.plural(chosen.shape)}")
            asked.append((question, f"There {verb} {number} {chosen.colour} {named(chosen)}.", number))
        elif form == 2:
            question = f"What color {'is' if chosen.count == 1 else 'are'} the {named(chosen)}?"
            asked.append(
                (
                    question,
                    f"The {named(chosen)} {'is' if chosen.count == 1 else 'are'} {chosen.colour}.",
                    chosen.colour,
                )
            )
        else:
            question = _how_many.pick(rng, split).format("shapes")
            total = COUNTED[one.count + other.count]
            asked.append((question, f"There are {total} shapes.", total))
    shown = [pictures.shapes([one, other], rng)]
    combination = (one.shape, one.colour, one.count)
    return _chat(shown, [pair[:2] for pair in asked], combination, "picture_groups", asked[-1][2], rng)


def position(rng: Random, split: Split) -> Chat:
    """One to three different things: where is one of them?"""
    while True:
        count = rng.randint(1, 3)
        kinds = rng.sample(pictures.SHAPES, count)
        cells = rng.sample(range(9), count)
        things = [(shape, rng.choice(list(pictures.COLOURS)), cell) for shape, cell in zip(kinds, cells, strict=True)]
        if held("position", *things[0]) == (split == "held"):
            break
    asked = []
    for place in range(rng.randint(1, 3)):
        shape, colour, cell = things[0] if place == 0 else rng.choice(things)
        if rng.random() < 0.7 or count > 1 and place == 0:
            where = pictures.PLACES[cell]
            question = _where.pick(rng, split).format(rng.choice((shape, f"{colour} {shape}")))
            asked.append((question, f"The {shape} is in the {where}.", f"in the {where}."))
        else:
            question = f"What is in the {pictures.PLACES[cell]}?"
            asked.append((question, f"A {colour} {shape}.", shape))
    shown = [pictures.placed(things, rng)]
    return _chat(shown, [one[:2] for one in asked], things[0], "picture_position", asked[-1][2], rng)


def word(rng: Random, split: Split) -> Chat:
    """A word or a number to be read."""
    while True:
        colour = rng.choice(list(pictures.COLOURS))
        text = rng.choice(pictures.WORDS) if rng.random() < 0.6 else str(rng.randint(0, 9999))
        if rng.random() < 0.15:
            text = "".join(rng.choices("ABCDEFGHIJKLMNOPQRSTUVWXYZ", k=rng.randint(1, 4)))
        if held("word", text, colour) == (split == "held"):
            break
    asked = [(_read.pick(rng, split), f"It says {text}.", text)]
    if rng.random() < 0.3:
        asked.insert(0, ("What color is the text?", f"The text is {colour}.", colour))
    shown = [pictures.written(text, rng, colour)]
    return _chat(shown, [one[:2] for one in asked], (text, colour), "picture_word", asked[-1][2], rng)


def emoji(rng: Random, split: Split) -> Chat:
    """A thing with a name. Names cannot be guessed: the split is by phrase."""
    name = rng.choice(list(pictures.emoji()))
    answer = f"This is {facts.an(name)}."
    return _chat([pictures.show(name, rng)], [(_what.pick(rng, split), answer)], (name,), "picture_emoji", name, rng)


def two_pictures(rng: Random, split: Split, questions: int | None = None) -> Chat:
    """Compare: more, same, both, which."""
    one, other = pictures.draw_group(rng, split), pictures.draw_group(rng, "train")
    if rng.random() < 0.5:  # alike in one or two ways, or the question has only one answer
        other = Group(
            one.shape if rng.random() < 0.5 else other.shape,
            one.colour if rng.random() < 0.5 else other.colour,
            other.count,
        )
        if other.is_held and split == "train":
            other = pictures.draw_group(rng, "train")
    if rng.random() < 0.5:
        one, other = other, one
    asked = []
    for _ in range(questions or rng.randint(1, 4)):
        form = rng.choice(("more", "more", "same", "both", "which", "which"))
        if form == "more" and one.count == other.count:
            form = "same"
        if form == "which" and (one.shape, one.colour) == (other.shape, other.colour):
            form = "both"
        if form == "more":
            first = one.count > other.count
            asked.append(
                (
                    _more.pick(rng, split),
                    f"The {'first' if first else 'second'} picture has more.",
                    "first" if first else "second",
                )
            )
        elif form == "same":
            what = rng.choice(("color", "shape"))
            here, there = (
                (one.colour, other.colour) if what == "color" else (facts.plural(one.shape), facts.plural(other.shape))
            )
            answer = (
                f"Yes, both show {here}." if here == there else f"No, the first shows {here} and the second {there}."
            )
            asked.append((_same.pick(rng, split).format(what), answer, "Yes" if here == there else "No"))
        elif form == "both":
            answer = f"The first shows {said(one)}, the second shows {said(other)}."
            asked.append((_both.pick(rng, split), answer, answer[:-1]))
        else:
            first = rng.random() < 0.5
            chosen = one if first else other
            question = _which_shows.pick(rng, split).format(f"{chosen.colour} {facts.plural(chosen.shape)}")
            asked.append((question, f"The {'first' if first else 'second'} picture.", "first" if first else "second"))
    shown = [pictures.shapes([one], rng), pictures.shapes([other], rng)]
    combination = (one.shape, one.colour, one.count, other.shape, other.colour, other.count)
    return _chat(shown, [pair[:2] for pair in asked], combination, "pictures_two", asked[-1][2], rng)


def two_emoji(rng: Random, split: Split) -> Chat:
    one, other = rng.sample(list(pictures.emoji()), 2)
    shown = [pictures.show(one, rng), pictures.show(other, rng)]
    if rng.random() < 0.5:
        first = rng.random() < 0.5
        question = _which_shows.pick(rng, split).format(facts.an(one if first else other))
        answer = "first" if first else "second"
        return _chat(shown, [(question, f"The {answer} picture.")], (one, other), "pictures_two", answer, rng)
    answer = f"The first shows {facts.an(one)}, the second shows {facts.an(other)}."
    return _chat(shown, [(_both.pick(rng, split), answer)], (one, other), "pictures_two", answer[:-1], rng)
