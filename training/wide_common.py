"""What everybody knows, asked in many words; what nobody can know; yes or no about what was just said; stories about anything."""

# ruff: noqa: E501, SIM905  (phrases in rows are easier to read than lists of them)

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random

from training import facts, wide, wide_more, wide_talk
from training.data_chat import Chat, Turn
from training.facts_questions import Exchange
from training.wide_doubts import checked, members, one_of, secret
from training.wide_facts import capital
from training.wide_long import system
from training.wide_more import put
from training.wide_talk import lines


def _table(text: str) -> list[tuple[str, str]]:
    return [(one, other) for one, _, other in (pair.partition("=") for pair in lines(text))]


# what is asked: its table, how it is asked (`{k}`, with its article `{a}`), how it is answered, and how it is doubted
COLOURS = _table(
    "grass=green|snow=white|coal=black|blood=red|a lemon=yellow|a ripe banana=yellow|the sky on a clear day=blue|chocolate=brown|milk=white|a carrot=orange|an emerald=green|a ruby=red|a raven=black|a swan=white|a frog=green|a polar bear=white|a flamingo=pink|ketchup=red|salt=white|a ripe tomato=red|an orange=orange|spinach=green|chalk=white|tar=black|a sunflower=yellow|a fire engine=red|a strawberry=red|a pea=green|an elephant=gray|cotton=white|gold=yellow|a lime=green|a cherry=red|a crow=black"
)
LEGS = _table(
    "a spider=eight|an ant=six|a dog=four|a bird=two|a horse=four|a bee=six|a cat=four|a chicken=two|a cow=four|a person=two|a beetle=six|an elephant=four|a snake=no|a fish=no|a fly=six|a duck=two|a scorpion=eight|a lion=four|an ostrich=two|a worm=no|a crab=ten"
)
PARTS = _table(
    "days are in a week=seven|months are in a year=twelve|hours are in a day=twenty-four|minutes are in an hour=sixty|seconds are in a minute=sixty|weeks are in a year=fifty-two|days are in a year=365|wheels has a bicycle=two|wheels has a car=four|wheels has a tricycle=three|sides has a triangle=three|sides has a square=four|sides has a pentagon=five|sides has a hexagon=six|corners has a rectangle=four|fingers are on a hand=five|toes are on a foot=five|letters are in the English alphabet=twenty-six|continents are there=seven|planets are in the solar system=eight|strings has a violin=four|strings has a guitar=six|keys has a piano=eighty-eight|cents are in a dollar=a hundred|things make a dozen=twelve|arms has an octopus=eight|eyes does a person have=two|seasons are in a year=four|colors has a rainbow=seven|players has a football team=eleven|centimeters are in a meter=a hundred|meters are in a kilometer=a thousand|grams are in a kilogram=a thousand|years are in a century=a hundred|years are in a decade=ten|legs has a stool with three legs=three|faces has a cube=six|humps has a dromedary=one|zeros are in a thousand=three"
)
SOUNDS = _table(
    "dog=barks|cat=meows|cow=moos|sheep=bleats|horse=neighs|lion=roars|duck=quacks|frog=croaks|bee=buzzes|owl=hoots|pig=oinks|wolf=howls|snake=hisses|rooster=crows|donkey=brays|mouse=squeaks|bird=sings|goat=bleats|elephant=trumpets|crow=caws"
)
YOUNG = _table(
    "dog=puppy|cat=kitten|cow=calf|horse=foal|sheep=lamb|goat=kid|pig=piglet|duck=duckling|goose=gosling|hen=chick|lion=cub|bear=cub|frog=tadpole|deer=fawn|swan=cygnet|kangaroo=joey|owl=owlet|eagle=eaglet|wolf=cub|whale=calf|elephant=calf|seal=pup|butterfly=caterpillar"
)
HOMES = _table(
    "bee=a hive|bird=a nest|dog=a kennel|horse=a stable|spider=a web|lion=a den|rabbit=a burrow|pig=a sty|fish=water|king=a palace|monk=a monastery|ant=an anthill|bear=a den|hen=a coop|beaver=a lodge|camel=the desert|penguin=the Antarctic|cow=a barn|snail=its shell|mole=a tunnel in the ground|soldier=barracks"
)
USES = _table(
    "hammer=drive nails|key=open a lock|knife=cut things|broom=sweep the floor|oven=bake|needle=sew|umbrella=keep off the rain|pen=write|spoon=eat soup|clock=tell the time|map=find the way|ladder=climb up|soap=wash|scissors=cut paper|towel=dry oneself|brush=paint or clean|camera=take photos|telescope=look at the stars|thermometer=measure how warm it is|scale=weigh things|ruler=measure lengths|saw=cut wood|bucket=carry water|rake=gather leaves|kettle=boil water|fridge=keep food cold|pillow=rest one's head|bridge=cross a river|compass=find north|lamp=give light|glue=stick things together|calendar=see what day it is|spade=dig|comb=tidy one's hair|toothbrush=clean one's teeth|microscope=see very small things|parachute=fall slowly through the air|net=catch fish|candle=give light|iron=smooth clothes|bell=call people|rope=tie things|phone=talk to people far away|stamp=send a letter|helmet=protect the head|whistle=give a signal|tent=sleep outdoors|wallet=keep money|bicycle=ride"
)
MADE = _table(
    "bread=flour|cheese=milk|wine=grapes|paper=wood|glass=sand|butter=milk|a wool sweater=the wool of sheep|chocolate=cocoa beans|an omelette=eggs|a candle=wax|ketchup=tomatoes|leather=the skin of animals|ice=water|raisins=grapes|flour=grain|steel=iron|jeans=cotton|tires=rubber|honey=nectar|yogurt=milk|a brick=clay|chips=potatoes|popcorn=corn|beer=barley|jam=fruit and sugar|lemonade=lemons, water and sugar|cider=apples|toast=bread|silk=the threads of silkworms|olive oil=olives|a snowman=snow|pasta=flour and water"
)
WHO = _table(
    "bakes bread=a baker|flies a plane=a pilot|puts out fires=a firefighter|teaches children=a teacher|heals sick people=a doctor|cuts hair=a hairdresser|brings letters=a mail carrier|repairs cars=a mechanic|catches fish=a fisherman|grows crops=a farmer|builds houses=a builder|sells meat=a butcher|looks after teeth=a dentist|writes books=an author|paints pictures=a painter|makes clothes=a tailor|repairs pipes=a plumber|treats sick animals=a vet|drives a train=a train driver|cooks in a restaurant=a cook|takes photos for a living=a photographer|shoes horses=a blacksmith|works with wood=a carpenter|studies the stars=an astronomer|judges in a court=a judge|sails the sea=a sailor|digs coal=a miner|keeps bees=a beekeeper|draws plans of houses=an architect|plays on a stage=an actor|guards prisoners=a guard|sells flowers=a florist|leads an orchestra=a conductor|serves food at a table=a waiter|flies to space=an astronaut"
)
WHERE = _table(
    "borrow books=in a library|see old paintings=in a museum|buy bread=in a bakery|mail a letter=at the post office|catch a train=at a station|board a plane=at an airport|buy medicine=in a pharmacy|keep money safe=in a bank|see a film=in a cinema|see wild animals from many lands=in a zoo|learn to read=at school|sleep when traveling=in a hotel|get a tooth fixed=at the dentist's|swim=in a pool|see a play=in a theater|get fuel for a car=at a gas station|eat a meal without cooking=in a restaurant|pray=in a church|park a car=in a garage|find ships=in a harbor|have an operation=in a hospital|watch a football match=in a stadium|find sand and waves=at the beach|find books to buy=in a bookshop|cook=in the kitchen|take a bath=in the bathroom|find a judge=in a court|look at the stars with a big telescope=in an observatory"
)
SIZES = lines(
    "ant,mouse,cat,dog,pony,horse,elephant,whale|pebble,brick,chair,car,bus,house,mountain|cherry,plum,apple,melon,pumpkin|village,town,city,country,continent|puddle,pond,lake,sea,ocean|second,minute,hour,day,week,month,year,century|gram,kilogram,tonne|millimeter,centimeter,meter,kilometer|canoe,yacht,ferry,ocean liner|twig,branch,bush,tree|bee,sparrow,crow,eagle,ostrich"
)
SPEEDS = lines("snail,tortoise,person,bicycle,car,plane,rocket|worm,hen,dog,horse,cheetah|rowing boat,bus,train,jet")
FACTS = _table("""what freezes at zero degrees=Water freezes at zero degrees.|at what temperature does water boil=Water boils at 100 degrees Celsius.|what do plants need to grow=Plants need light, water and soil.|which star is closest to the earth=The sun is the closest star.|what is frozen water called=Frozen water is called ice.|what falls from clouds=Rain
falls from clouds.|what do we breathe=We breathe air.|what is the largest ocean=The Pacific is the largest ocean.|what is the largest animal=The blue whale is the largest animal.|what is the tallest animal=The giraffe is the tallest animal.|what is the fastest land animal=The cheetah is the fastest land animal.|what is the highest mountain=Mount Everest is
the highest mountain.|which planet do we live on=We live on the earth.|what goes around the earth=The moon goes around the earth.|what does the earth go around=The earth goes around the sun.|what comes after winter=Spring comes after winter.|what comes after summer=Autumn comes after summer.|which season is the coldest=Winter is the coldest season.|which season is
the warmest=Summer is the warmest season.|in which direction does the sun set=The sun sets in the west.|where does the sun rise=The sun rises in the east.|what do bees make=Bees make honey.|what do cows eat=Cows eat grass.|what do cows give us=Cows give us milk.|what do hens lay=Hens lay eggs.|what do caterpillars turn into=Caterpillars turn into butterflies.|which
animal is called the king of the animals=The lion is called the king of the animals.|what is the opposite of hot=The opposite of hot is cold.|what do you get when you mix blue and yellow=Blue and yellow make green.|what do red and yellow make=Red and yellow make orange.|which color do you get from red and blue=Red and blue make purple.|what is the first letter of the
alphabet=The first letter is A.|what is the last letter of the alphabet=The last letter is Z.|which month comes first in the year=January is the first month.|what is the last month of the year=December is the last month.|which is the shortest month=February is the shortest month.|what do we use to see=We see with our eyes.|what do we hear with=We hear with our ears.|
what do we smell with=We smell with the nose.|which organ pumps blood=The heart pumps blood.|what pumps blood through the body=The heart pumps blood.|what do fish breathe with=Fish breathe with gills.|what do birds fly with=Birds fly with their wings.|what covers a bird=Feathers cover a bird.|what is a group of wolves called=A group of wolves is called a pack.|what is
a group of sheep called=A group of sheep is called a flock.|what is the freezing point of water=Water freezes at zero degrees Celsius.|what is half of ten=Half of ten is five.|what is double of six=Double of six is twelve.|who was the first man on the moon=Neil Armstrong was the first man on the moon.|who wrote Romeo and Juliet=William Shakespeare wrote Romeo and
Juliet.|who painted the Mona Lisa=Leonardo da Vinci painted the Mona Lisa.|what is the longest river in Africa=The Nile is the longest river in Africa.|in which country are the pyramids of Giza=The pyramids of Giza are in Egypt.|which language do people speak in Brazil=People in Brazil speak Portuguese.|what language is spoken in Spain=Spanish is spoken in Spain.|which
language do they speak in Germany=They speak German in Germany.|what do they speak in France=They speak French in France.|what is H2O=H2O is water.|which metal is liquid at room temperature=Mercury is liquid at room temperature.|what do magnets attract=Magnets attract iron.|what is the chemical sign of gold=The chemical sign of gold is Au.|what gas do plants take
in=Plants take in carbon dioxide.|what gas do we need to live=We need oxygen.|why do we wear coats=We wear coats to keep warm.|why do people drink water=People drink water because they are thirsty.|why does ice float=Ice floats because it is lighter than water.|when do people eat breakfast=People eat breakfast in the morning.|when do we see stars=We see stars at
night.|when is Christmas=Christmas is on December 25.|when does a year begin=A year begins on January 1.|what does a clock show=A clock shows the time.|what do you find in a library=There are books in a library.|what grows on an apple tree=Apples grow on an apple tree.|what tree do acorns come from=Acorns come from oaks.|where does milk come from=Milk comes from
cows.|where does wool come from=Wool comes from sheep.|where do fish live=Fish live in water.|what do pandas eat=Pandas eat bamboo.|what do rabbits like to eat=Rabbits like carrots and grass.|what do spiders spin=Spiders spin webs.|what melts in the sun=Ice melts in the sun.|how do fish move=Fish swim.|how does sugar taste=Sugar tastes sweet.|how does a lemon
taste=A lemon tastes sour.|how does salt taste=Salt tastes salty.|what is the hardest stone=The diamond is the hardest stone.|what is the largest planet=Jupiter is the largest planet.|which planet is closest to the sun=Mercury is closest to the sun.|which planet is called the red planet=Mars is called the red planet.|which planet has big rings=Saturn has big
rings.|what is the largest country in the world=Russia is the largest country.|what is the smallest continent=Australia is the smallest continent.|what is the biggest continent=Asia is the biggest continent.|what is the biggest desert=The Sahara is the biggest hot desert.|what is the day before Monday=The day before Monday is Sunday.|which day follows
Friday=Saturday follows Friday.|what do we call a person from Italy=A person from Italy is an Italian.|what is the money of Japan called=The money of Japan is the yen.|what is the capital of England=The capital of England is London.|what bird cannot fly=A penguin cannot fly.|name an animal with a trunk=An elephant has a trunk.|which animal has a long neck=A giraffe has a
long neck.|which animal has black and white stripes=A zebra has black and white stripes.|which animal carries its young in a pouch=A kangaroo carries its young in a pouch.|what is a baby called before it can walk=It is called a baby or an infant.|what does a vegetarian not eat=A vegetarian does not eat meat.|what is the sun=The sun is a star.|what makes a
rainbow=Sun and rain make a rainbow.""")
ASKED: dict[str, list[str]] = {
    "colour": lines("what color is {k}|which color has {k}|what is the color of {k}|what colour is {k} usually|name the color of {k}|{k} is what color|tell me what color {k} is|do you know the color of {k}|in what color do we see {k}"),
    "legs": lines("how many legs has {k}|how many legs does {k} have|number of legs of {k}|on how many legs does {k} walk|tell me how many legs {k} has|count the legs of {k}|what is the number of legs of {k}"),
    "parts": lines("how many {k}|do you know how many {k}|tell me how many {k}|can you say how many {k}|quick question: how many {k}|I forgot how many {k}"),
    "sound": lines("what sound does a {k} make|what does a {k} do when it makes a noise|which noise does a {k} make|how does a {k} sound|what noise comes from a {k}|a {k} makes what sound"),
    "young": lines("what is a young {k} called|what do you call a baby {k}|how is the young of a {k} called|the child of a {k} is called what|name for a young {k}|what is the word for a baby {k}"),
    "home": lines("where does a {k} live|in what does a {k} live|what is the home of a {k}|where is a {k} at home|what do you call the home of a {k}|where would I find a {k}"),
    "use": lines("what is {a} for|what do you do with {a}|what is {a} used for|why would I need {a}|what can I do with {a}|what is the use of {a}|explain what {a} is good for|for what do people use {a}"),
    "made": lines("what is {k} made of|what is {k} made from|out of what is {k} made|what do you need to make {k}|from what does {k} come|what do people make {k} from"),
    "who": lines("who {k}|what do you call a person who {k}|which job has somebody who {k}|the person who {k} is called what|what is the profession of one who {k}|what's the name for someone who {k}"),
    "where": lines("where can I {k}|where do people {k}|where would you {k}|in what place do you {k}|where should I go to {k}|what is the place to {k}|I want to {k}, where do I go"),
}  # fmt: skip
ANSWERS: dict[str, tuple[list[tuple[str, str]], str]] = {
    "colour": (COLOURS, "{K} is {v}."), "legs": (LEGS, "{K} has {v} legs."), "parts": (PARTS, ""), "sound": (SOUNDS, "A {k} {v}."), "young": (YOUNG, "A young {k} is called a {v}."),
    "home": (HOMES, "A {k} lives in {v}."), "use": (USES, "One uses it to {v}."), "made": (MADE, "{K} is made of {v}."), "who": (WHO, "{V} {k}."), "where": (WHERE, "One can {k} {v}."),
}  # fmt: skip
KIND = lines(
    "what is {a}, what kind of thing|what kind of thing is {a}|to what group does {m} belong|{m} is a kind of what|what sort of thing is {m}|is {m} a {k} or a {o}|what would you call {m}, a {k} or a {o}|{m}: {o} or {k}|which is it, is {m} a {o} or a {k}"
)


def _kind(rng: Random) -> Exchange:
    kind = rng.choice(list(members()))
    member = rng.choice(members()[kind])
    other = rng.choice([each for each, words in members().items() if member not in words])
    form = rng.choice(KIND)
    text = form.format(a=one_of(member, kind), m=member, k=kind, o=other)
    return Exchange(
        put(re.sub(r"\ba (?=[aeiou])", "an ", text), rng), f"{capital(one_of(member, kind))} is {facts.an(kind)}.", ()
    )


def _country(rng: Random) -> Exchange:
    country, capital_, continent, money = rng.choice(facts.countries())
    form = rng.randrange(3)
    if form == 0 and capital_:
        return Exchange(
            put(
                rng.choice(
                    lines(
                        "capital of {c}|which city is the capital of {c}|what's the capital city of {c}|name the capital of {c}|{c} has which capital|of {c}, what is the capital|where does the government of {c} sit"
                    )
                ).format(c=country),
                rng,
            ),
            f"The capital of {country} is {capital_}.",
            (),
        )
    if form == 1 and continent:
        return Exchange(
            put(
                rng.choice(
                    lines(
                        "on which continent is {c}|{c} is on what continent|which continent does {c} belong to|in what part of the world is {c}|what continent is {c} in"
                    )
                ).format(c=country),
                rng,
            ),
            f"{country} is in {continent}.",
            (),
        )
    if capital_:
        return Exchange(
            put(
                rng.choice(
                    lines(
                        "{t} is the capital of which country|of what country is {t} the capital|in which country is {t}|where is {t}|what country has {t} as its capital"
                    )
                ).format(t=capital_),
                rng,
            ),
            f"{capital_} is the capital of {country}.",
            (),
        )
    return _country(rng)


def _ordered(rng: Random) -> Exchange:
    draw = rng.random()
    if draw < 0.5:
        sizes = rng.random() < 0.65
        row = rng.choice(SIZES if sizes else SPEEDS).split(",")
        low, high = sorted(rng.sample(range(len(row)), 2))
        time = row[0] == "second"
        more, less = (
            ("longer", "shorter")
            if time or row[0] == "millimeter"
            else ("heavier", "lighter")
            if row[0] == "gram"
            else ("bigger", "smaller")
            if sizes
            else ("faster", "slower")
        )
        one, other = (row[low], row[high]) if rng.random() < 0.5 else (row[high], row[low])
        up = rng.random() < 0.6
        word, best = (more, row[high]) if up else (less, row[low])
        if rng.random() < 0.5:
            text = rng.choice(
                (
                    "which is {w}, {a} or {b}",
                    "what is {w}, {a} or {b}",
                    "{a} or {b}, which one is {w}",
                    "is {a} or {b} the {w} one",
                    "tell me which is {w}: {a} or {b}",
                )
            ).format(w=word, a=facts.an(one), b=facts.an(other))
            return Exchange(put(text, rng), f"{capital(facts.an(best))} is {word}.", ())
        right = one == best
        rest = row[low] if best == row[high] else row[high]
        text = rng.choice(
            (
                "is {a} {w} than {b}",
                "would you say {a} is {w} than {b}",
                "is it true that {a} is {w} than {b}",
                "{a} is {w} than {b}, right",
            )
        ).format(w=word, a=facts.an(one), b=facts.an(other))
        return Exchange(
            put(text, rng), f"{'Yes' if right else 'No'}, {facts.an(best)} is {word} than {facts.an(rest)}.", ()
        )
    row = list(facts.DAYS) if draw < 0.75 else list(facts.MONTHS)
    at = rng.randrange(len(row))
    after = rng.random() < 0.55
    found = row[(at + (1 if after else -1)) % len(row)]
    noun = "day" if len(row) == 7 else "month"
    forms = (
        "what {n} comes {w} {x}",
        "which {n} is {w} {x}",
        "{w} {x} comes which {n}",
        "name the {n} {w} {x}",
        "what is the {n} right {w} {x}",
    )
    return Exchange(
        put(rng.choice(forms).format(n=noun, w="after" if after else "before", x=row[at]), rng),
        f"{found} comes {'after' if after else 'before'} {row[at]}.",
        (),
    )


def _doubted(rng: Random) -> Exchange:
    """Yes or no about what everybody knows."""
    form = rng.choice(("colour", "legs", "young", "kind", "kind", "use", "made"))
    right = rng.random() < 0.5
    if form == "kind":
        kind = rng.choice(list(members()))
        member = rng.choice(members()[kind])
        asked = kind if right else rng.choice([each for each, words in members().items() if member not in words])
        text = rng.choice(
            (
                "is {m} {k}",
                "does {m} count as {k}",
                "would you call {m} {k}",
                "{m} is {k}, right",
                "is it correct that {m} is {k}",
            )
        ).format(m=one_of(member, kind), k=facts.an(asked))
        return Exchange(put(text, rng), f"{'Yes' if right else 'No'}, {one_of(member, kind)} is {facts.an(kind)}.", ())
    table = ANSWERS[form][0]
    key, value = rng.choice(table)
    other = value if right else rng.choice([each for _, each in table if each != value])
    yes = "Yes" if right else "No"
    if form == "colour":
        return Exchange(
            put(
                rng.choice(
                    ("is {k} {v}", "is {k} usually {v}", "{k} is {v}, correct", "would you call {k} {v}")
                ).format(k=key, v=other),
                rng,
            ),
            f"{yes}, {key} is {value}.",
            (),
        )
    if form == "legs":
        return Exchange(
            put(
                rng.choice(("does {k} have {v} legs", "has {k} {v} legs", "is it {v} legs that {k} has")).format(
                    k=key, v=other
                ),
                rng,
            ),
            f"{yes}, {key} has {value} legs.",
            (),
        )
    if form == "young":
        return Exchange(
            put(rng.choice(("is a young {k} called a {v}", "is a {v} a young {k}")).format(k=key, v=other), rng),
            f"{yes}, a young {key} is called a {value}.",
            (),
        )
    if form == "use":
        thing = key if key == "scissors" else facts.an(key)
        return Exchange(
            put(
                rng.choice(("can I use {k} to {v}", "is {k} there to {v}", "do people {v} with {k}")).format(
                    k=thing, v=other
                ),
                rng,
            ),
            f"{yes}, one uses it to {value}.",
            (),
        )
    return Exchange(
        put(
            rng.choice(("is {k} made of {v}", "is {k} made from {v}", "do you need {v} to make {k}")).format(
                k=key, v=other
            ),
            rng,
        ),
        f"{yes}, {key} is made of {value}.",
        (),
    )


def known(rng: Random) -> Exchange:
    draw = rng.random()
    if draw < 0.24:
        question, answer = rng.choice(FACTS)
        return Exchange(put(question, rng), answer, ())
    if draw < 0.58:
        form = rng.choice(list(ASKED))
        table, answer = ANSWERS[form]
        key, value = rng.choice(table)
        text = rng.choice(ASKED[form]).format(k=key, a=key if key in ("scissors", "soap", "glue") else facts.an(key))
        if form == "parts":
            return Exchange(put(text, rng), f"It is {value}.", ())
        return Exchange(put(text, rng), answer.format(k=key, K=capital(key), v=value, V=capital(value)), ())
    return (_kind if draw < 0.68 else _country if draw < 0.78 else _ordered if draw < 0.88 else _doubted)(rng)


# -- stories

TRAITS = lines(
    "little|brave|old|small|lonely|clever|happy|lost|young|tired|curious|shy|proud|hungry|quiet|silly|forgetful|golden|tiny"
)
WHO_ALSO = lines(
    "who cannot sleep|that is afraid of water|who wants to sing|that lost its way|who has no friends|that found a treasure|who never gave up|who likes to dance|with a secret|in the rain|at sea|in winter|on a long journey"
)


def told(rng: Random) -> Exchange:
    """About anybody or anything, or about two, who then meet."""
    kind = rng.choice(
        (
            "animal",
            "bird",
            "pet",
            "profession",
            "vehicle",
            "boat",
            "furniture",
            "toy",
            "insect",
            "tool",
            "flower",
            "tree",
            "fish",
            "building",
            "instrument",
        )
    )
    pool = members().get(kind) or [
        "hamster",
        "parrot",
        "goldfish",
        "guinea pig",
        "canary",
        "tortoise",
        "rabbit",
        "poodle",
    ]
    pool = [one for one in pool if not one.endswith("s")]
    hero = (
        rng.choice(pool)
        if rng.random() < 0.6
        else rng.choice((rng.choice(facts.ANIMALS), rng.choice(wide_talk.HEROES), wide.noun(rng)))
    )
    friend_ = rng.choice([one for one in facts.ANIMALS if one != hero and one not in hero])
    friend, place = (
        f"{rng.choice(('', '', 'old ', 'small ', 'kind ', 'young '))}{friend_}",
        rng.choice(lines("forest|village|meadow|valley|harbor|garden|river|lake|market|field|mill|town")),
    )
    draw = rng.random()
    if draw < 0.25:
        friend = friend_
        subject = rng.choice(
            (
                f"{facts.an(hero)} and {facts.an(friend)}",
                f"{facts.an(hero)} who meets {facts.an(friend)}",
                f"{facts.an(friend)} and {facts.an(hero)}",
                f"the friendship of {facts.an(hero)} and {facts.an(friend)}",
            )
        )
    elif draw < 0.35:
        subject = f"{facts.an(hero)} in a {place}"
    elif draw < 0.5:
        subject = f"{facts.an(hero)} {rng.choice(WHO_ALSO)}"
    elif draw < 0.7:
        subject = facts.an(f"{rng.choice(TRAITS)} {hero}")
    else:
        subject = rng.choice(
            (facts.an(hero), facts.an(hero), hero, f"the {hero}", facts.plural(hero), f"two {facts.plural(hero)}")
        )
    words = {"a": facts.an(hero), "A": capital(facts.an(hero)), "h": hero, "f": facts.an(friend), "F": capital(facts.an(friend)), "p": place,
             "o": rng.choice(facts.CARRIED)}  # fmt: skip
    plots = [plot for plot in wide_more.PLOTS if "{f}" in plot] if draw < 0.25 else wide_more.PLOTS
    tale = re.sub(r"(?<=[.!?] )\{f\}|(?<=\" )\{f\}", "{F}", rng.choice(plots)).format(**words)
    return Exchange(put(rng.choice(wide_more.STORIES).format(s=subject), rng, (".", "", "!", "?")), tale, ())


EXCHANGES: dict[Callable[[Random], Exchange], float] = {known: 7, secret: 3, checked: 5, told: 2.2}


def draw(rng: Random) -> Chat:
    """One to four exchanges; some of the other talk among them."""
    turns: list[Turn] = []
    for _ in range(rng.choice((1, 1, 1, 2, 3, 4))):
        one = (
            rng.choices(list(EXCHANGES), list(EXCHANGES.values()))[0](rng)
            if rng.random() < 0.85
            else wide_talk.exchange(rng)
        )
        turns += [Turn("user", one.user), Turn("assistant", one.answer)]
    return Chat(turns, "wide_talk", (), system(rng) if rng.random() < 0.2 else "", expect=None)
