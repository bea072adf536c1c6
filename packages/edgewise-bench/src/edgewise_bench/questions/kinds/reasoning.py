"""Kinds of question that need a step of thought: order, relations, common sense, choices."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from random import Random

from edgewise.calibrate.rows import Question
from edgewise_bench.questions.kinds import facts
from edgewise_bench.questions.kinds.recall import Kind, read_pairs, with_plurals

ROWS = 120
_NAMES = facts.NAMES.split()


def orderings(random: Random) -> Iterator[Question]:
    """Who is the tallest, when only pairs are compared."""
    scales = (
        ("taller", "tallest", "shortest"),
        ("older", "oldest", "youngest"),
        ("faster", "fastest", "slowest"),
        ("richer", "richest", "poorest"),
        ("heavier", "heaviest", "lightest"),
    )
    for _ in range(ROWS):
        names = random.sample(_NAMES, random.choice((2, 3, 3, 4)))
        more, most, least = random.choice(scales)
        pairs = [f"{high} is {more} than {low}." for high, low in pairwise(names)]
        text = " ".join(random.sample(pairs, len(pairs)))
        word, answer = random.choice(((most, names[0]), (least, names[-1])))
        rivals = tuple(name for name in names if name != answer)
        yield Question(
            kind="orderings",
            prompt=f"{text} Who is the {word}?",
            accepted=(answer,),
            rivals=rivals,
            level=len(names) - 1,
        )


def syllogisms(random: Random) -> Iterator[Question]:
    nonsense = ["wugs", "blickets", "daxes", "zorps", "fendles", "mirps", "toves", "grolls"]
    for _ in range(ROWS):
        a, b, c = random.sample(nonsense, 3)
        name = random.choice(_NAMES)
        text, right = random.choice(
            (
                (f"All {a} are {b}. All {b} are {c}. Are all {a} {c}?", True),
                (f"All {a} are {b}. {name} is one of the {a}. Is {name} one of the {b}?", True),
                (f"No {a} are {b}. {name} is one of the {a}. Is {name} one of the {b}?", False),
                (f"All {a} are {b}. Some {b} are {c}. Must all {a} be {c}?", False),
                (
                    f"All {a} are {b}. {name} is not one of the {b}. Is {name} one of the {a}?",
                    False,
                ),
                (f"All {a} are {b}. No {b} are {c}. Are any {a} {c}?", False),
                (f"Some {a} are {b}. All {b} are {c}. Are some {a} {c}?", True),
            )
        )
        yield Question(
            kind="syllogisms",
            prompt=f"{text} Answer yes or no.",
            accepted=("yes" if right else "no",),
            rule="yes_no",
        )


RELATIVES = """
my mother's mother=grandmother/grandma; my mother's brother=uncle; my father's sister=aunt; my
brother's son=nephew; my sister's daughter=niece; my uncle's son=cousin; my father's
father=grandfather/grandpa; my husband's mother=mother-in-law/mother in law; my wife's
brother=brother-in-law/brother in law; my son's son=grandson/grandchild; my daughter's
daughter=granddaughter/grandchild; my mother's husband, who is not my father=stepfather/stepdad;
my grandmother's mother=great-grandmother/great grandmother; my daughter's
husband=son-in-law/son in law; my son's wife=daughter-in-law/daughter in law; my aunt's
daughter=cousin; my parents' other son=brother; my parents' other daughter=sister; my father's
brother's wife=aunt; my
cousin's mother, who is my father's sister=aunt; my grandfather's only son, if he is a parent of
mine=father/dad; my sister's husband=brother-in-law/ brother in law; my brother's
wife=sister-in-law/sister in law; my niece's brother=nephew; my grandson's father, if he is my
child=son; my husband's father=father-in-law/father in law; my half-brother's father, if we
share the mother=stepfather/stepdad; my mother's sister's son=cousin; my grandmother's
husband=grandfather/grandpa; my nephew's sister=niece
"""


def relatives(random: Random) -> Iterator[Question]:
    shapes = ("What do I call {}?", "Who is {} to me?", "{} is my what?")
    for relation, answers in read_pairs(RELATIVES):
        for shape in shapes:
            prompt = shape.format(relation)
            yield Question(
                kind="relatives", prompt=prompt[0].upper() + prompt[1:], accepted=answers
            )


ANALOGIES = """
hot:cold up=down; puppy:dog kitten=cat; bird:nest bee=hive/beehive; hand:glove foot=sock/shoe;
Paris:France Rome=Italy; king:queen man=woman; big: bigger small=smaller; eye:see ear=hear;
fish:water bird=air/sky; day:night summer=winter; pen:write knife=cut; car:road
train=rail/rails/track/tracks/ railway; doctor:hospital teacher=school; one:first two=second;
cat:meow dog=bark/woof; lemon:sour sugar=sweet; painter:brush writer=pen; boy:girl uncle=aunt;
go:went eat=ate; mouse:mice goose=geese; author:book composer=music/symphony/song; wood:tree
wool=sheep; thermometer:temperature clock= time; bread:bakery meat=butcher/butchery;
Spain:Spanish Germany=German; finger:hand toe=foot; kitten:cat calf=cow; hungry:eat
tired=sleep/rest; ship: captain plane=pilot; wet:dry full=empty; petal:flower page=book;
minute:hour day=week; lion:pride wolf=pack; euro:Germany yen=Japan; grape:wine apple=cider;
left:right north=south; black:white yes=no; leaf:tree feather=bird; cow:milk hen=egg/eggs;
circle:ball square=cube/box; bicycle:two car=four/4; inch:foot foot=yard; Mozart:music
Picasso=painting/art/paintings; hydrogen:H oxygen=O; cub:bear foal=horse; tailor:clothes
baker=bread; teach:taught catch=caught; cold:shiver hot=sweat/perspire; February:January
Tuesday=Monday; ten:five eight=four/4
"""


def analogies(random: Random) -> Iterator[Question]:
    shapes = (
        "{0} is to {1} as {2} is to what?",
        "Complete the analogy: {0} : {1} = {2} : ?",
    )
    for entry, answers in read_pairs(ANALOGIES):
        left, _, third = entry.rpartition(" ")
        first, _, second = left.partition(":")
        for shape in shapes:
            prompt = shape.format(first.strip(), second.strip(), third.strip())
            yield Question(kind="analogies", prompt=prompt, accepted=answers)


USES = """
cut bread=knife; open a locked door=key; dry your hair=hairdryer/hair dryer/towel/blow
dryer/dryer; keep food cold=fridge/refrigerator/freezer/cooler; sweep the floor=broom; hit a
nail=hammer; protect yourself from rain=umbrella/raincoat; see far stars=telescope; eat
soup=spoon; brush your teeth=toothbrush; wake up in time=alarm clock/alarm; boil
water=kettle/pot/stove; cut paper=scissors; dig a hole=shovel/spade; write on a
blackboard=chalk; wash your hands=soap/water; light a candle=match/matches/lighter; measure a
table=tape measure/ruler/measuring tape/tape; carry books to
school=backpack/bag/schoolbag/rucksack; turn a screw=screwdriver; clean a carpet=vacuum/vacuum
cleaner/hoover; mow the lawn=lawnmower/lawn mower/mower; stir the soup=spoon/ladle; put out a
small fire=extinguisher/fire extinguisher/water/blanket; see in the
dark=flashlight/torch/lamp/light/night vision; paint a wall=brush/paintbrush/roller/paint; saw a
branch=saw; iron a shirt=iron; toast bread=toaster; catch fish=rod/net/fishing rod/hook; comb
your hair=comb/brush; erase pencil marks=eraser/rubber; drink from without spilling on a
bike=bottle/water bottle; sleep in while camping=tent/sleeping bag; find the north=compass;
grate cheese=grater; keep tea hot=thermos/flask/ thermos flask/teapot/vacuum flask; stick a
stamp or paper=glue; take a photograph=camera; weigh flour=scale/scales/kitchen scale
"""


def uses(random: Random) -> Iterator[Question]:
    shapes = (
        "What do you need to {}?",
        "Which object do people use to {}?",
        "Name a thing that helps you to {}.",
    )
    for purpose, answers in read_pairs(USES):
        for shape in random.sample(shapes, 2):
            yield Question(
                kind="uses", prompt=shape.format(purpose), accepted=with_plurals(answers)
            )


CAUSES = (
    ("The glass fell on the stone floor.", "It broke", ("It melted", "It grew", "It sang")),
    (
        "Tom left the ice cream in the sun.",
        "It melted",
        ("It froze", "It burned down", "It flew away"),
    ),
    (
        "It rained for three weeks.",
        "The river flooded",
        ("The desert grew", "The snow turned blue", "The roads became dusty"),
    ),
    (
        "Anna forgot her umbrella in the storm.",
        "She got wet",
        ("She got sunburnt", "She grew taller", "She fell asleep"),
    ),
    (
        "Peter studied every day.",
        "He passed the exam",
        ("He failed the exam", "He lost his bicycle", "He forgot how to read"),
    ),
    (
        "The battery of the phone was empty.",
        "The phone switched off",
        ("The phone became faster", "The phone took a picture", "The phone grew"),
    ),
    (
        "Nobody watered the plants.",
        "They dried out",
        ("They grew faster", "They turned into stone", "They moved away"),
    ),
    (
        "The driver did not see the red light.",
        "There was an accident",
        ("The car became new", "The street got wider", "The light turned blue"),
    ),
    (
        "Maria ate far too much cake.",
        "Her stomach hurt",
        ("She was very hungry", "Her hair grew", "She won a race"),
    ),
    (
        "The baby heard a loud bang.",
        "It started to cry",
        ("It wrote a letter", "It drove home", "It cooked dinner"),
    ),
    (
        "The oven was left on all night.",
        "The food burned",
        ("The food froze", "The food grew", "The food came back"),
    ),
    (
        "The temperature fell below zero.",
        "The water froze",
        ("The water boiled", "The water caught fire", "The water disappeared"),
    ),
    (
        "David did not sleep at all.",
        "He was tired the next day",
        ("He was full of energy", "He was ten years older", "He spoke another language"),
    ),
    (
        "The bus was an hour late.",
        "The passengers were annoyed",
        ("The passengers got paid", "The passengers fell from the sky", "The bus flew"),
    ),
    (
        "Lucy put sugar instead of salt into the soup.",
        "The soup tasted sweet",
        ("The soup tasted salty", "The soup was frozen", "The soup was blue"),
    ),
    (
        "The dog smelled the sausage.",
        "It ran to the kitchen",
        ("It read a book", "It went swimming in the oven", "It fell asleep for a year"),
    ),
    (
        "The company earned nothing for two years.",
        "It closed",
        ("It hired thousands", "It paid more wages", "It bought a castle"),
    ),
    (
        "The magnet came near the nails.",
        "The nails stuck to it",
        ("The nails melted", "The nails turned to wood", "The nails flew away from the earth"),
    ),
    (
        "He rubbed his cold hands together.",
        "They became warm",
        ("They became colder", "They fell asleep", "They turned green"),
    ),
    (
        "The key broke in the lock.",
        "The door could not be opened",
        ("The door opened by itself", "The door became bigger", "The door was painted"),
    ),
)


def causes(random: Random) -> Iterator[Question]:
    for text, right, wrong in CAUSES:
        for count in (1, 2, 3):
            shown = random.sample([right, *random.sample(wrong, count)], count + 1)
            shape = random.choice(
                (
                    "{0} What happened then? {1}",
                    "{0} What is the most likely result? Choose: {1}",
                    "{0} Which follows: {1}",
                )
            )
            yield Question(
                kind="causes",
                prompt=shape.format(text, "; ".join(shown))
                + ("?" if shape.endswith("}") and "Which" in shape else "."),
                accepted=(right, right.split(" ", 1)[1]),
                rivals=tuple(w.split(" ", 1)[1] for w in wrong),
                level=1,
            )


def directions(random: Random) -> Iterator[Question]:
    points = ("north", "east", "south", "west")
    for _ in range(ROWS):
        start = random.randrange(4)
        turns = [random.choice(("left", "right")) for _ in range(random.choice((1, 2, 2, 3)))]
        place = start
        for turn in turns:
            place = (place + (1 if turn == "right" else -1)) % 4
        if place == start:
            continue
        told = ", then ".join(f"turn {turn}" for turn in turns)
        shape = random.choice(
            (
                "I face {0}. I {1}. Which direction do I face now?",
                "You look {0}, {1}. Where do you look now?",
            )
        )
        rivals = tuple(point for point in points if point not in (points[place], points[start]))
        yield Question(
            kind="directions",
            prompt=shape.format(points[start], told),
            accepted=(points[place],),
            rivals=rivals,
            level=len(turns),
        )


RIDDLES = """
What has hands but cannot clap?=clock/watch; What has keys but opens no door?=piano/keyboard;
What gets wetter the more it dries?=towel; What has a neck but no head?=bottle; What has to be
broken before you can use it?=egg; What goes up but never comes down?=age; What has one eye but
cannot see?=needle; What is full of holes but still holds water?=sponge; What can you catch but
not throw?=cold; What has teeth but cannot bite?=comb/saw; What runs but has no
legs?=water/river/nose; What belongs to you but others use it more?=name; What month has 28
days?=all/every; What gets bigger the more you take away?=hole; What has four legs in the
morning, two at noon and three in the evening?=man/human/person/humans; What can travel around
the world while staying in a corner?=stamp; What has words but never speaks?=book; What has
cities but no houses?=map; What is always in front of you but cannot be seen?=future; Which is
heavier, a kilo of feathers or a kilo of iron?=same/equal/neither/both/equally; How many months
have 31 days?=seven/7; If you overtake the second in a race, which place are you in?=second/2nd;
A farmer has 17 sheep, all but 9 die. How many are left?=9/nine; What word is spelt incorrectly
in every dictionary?=incorrectly; What comes once in a minute, twice in a moment, but never in a
thousand years?=letter m/m; If there are three apples and you take two, how many do you
have?=two/2; How many sides does a circle have?=two/2/none/zero/0/no sides/infinite; What can
you hold without touching it?=breath/conversation; What has a thumb and four fingers but is not
alive?=glove; What building has the most stories?=library; What is black when clean and white
when dirty?=blackboard/chalkboard
"""


def riddles(random: Random) -> Iterator[Question]:
    shapes = ("{}", "Here is a riddle: {}", "{} Give a short answer.")
    for riddle, answers in read_pairs(RIDDLES):
        for shape in shapes:
            yield Question(kind="riddles", prompt=shape.format(riddle), accepted=answers, level=3)


def comparing_amounts(random: Random) -> Iterator[Question]:
    """Two amounts in different units or forms."""
    scales = (
        ("kg", 1000, "g"),
        ("m", 100, "cm"),
        ("hours", 60, "minutes"),
        ("km", 1000, "m"),
        ("litres", 1000, "ml"),
        ("weeks", 7, "days"),
    )
    for _ in range(ROWS):
        large, factor, small = random.choice(scales)
        amount = random.randint(1, 6)
        other = amount * factor + random.choice((-3, -2, -1, 1, 2, 3)) * max(1, factor // 10)
        first, second = f"{amount} {large}", f"{other} {small}"
        more = random.random() < 0.5
        answer = (
            (first if amount * factor > other else second)
            if more
            else (second if amount * factor > other else first)
        )
        rival = second if answer == first else first
        shown = random.sample((first, second), 2)
        yield Question(
            kind="comparing_amounts",
            prompt=f"Which is {'more' if more else 'less'}: {shown[0]} or {shown[1]}?",
            accepted=(answer,),
            rivals=(rival,),
        )


def lettered_choices(random: Random) -> Iterator[Question]:
    """Facts with four choices; the letter is asked for."""
    tables = (
        ("What is the capital of {}?", facts.CAPITALS),
        ("On which continent is {}?", facts.CONTINENTS),
        ("What is the currency of {}?", facts.CURRENCIES),
        ("What is the chemical symbol for {}?", facts.SYMBOLS),
        ("Who wrote {}?", facts.AUTHORS),
        ("What is the main language of {}?", facts.LANGUAGES),
    )
    for shape, graded in tables:
        for level, table in enumerate(graded, start=1):
            pairs = read_pairs(table)
            everything = sorted({answers[0] for _, answers in pairs})
            for thing, answers in random.sample(pairs, min(8, len(pairs))):
                wrong = [other for other in everything if other not in answers and len(other) > 1]
                if len(wrong) < 3 or len(answers[0]) == 1:  # "C" would be a letter and an answer
                    continue
                shown = random.sample([answers[0], *random.sample(wrong, 3)], 4)
                lines = "\n".join(
                    f"{letter}) {text}" for letter, text in zip("ABCD", shown, strict=True)
                )
                right = "ABCD"[shown.index(answers[0])]
                order = random.choice(
                    ("Answer with the letter.", "Which letter is right?", "Choose A, B, C or D.")
                )
                rivals = tuple(text for text in shown if text != answers[0])
                yield Question(
                    kind="lettered_choices",
                    prompt=f"{shape.format(thing)}\n{lines}\n{order}",
                    accepted=(right, answers[0]),
                    rule="letter",
                    rivals=rivals,
                    level=level,
                )


def lettered_sense(random: Random) -> Iterator[Question]:
    """Common sense with choices; the letter is asked for."""
    for text, right, wrong in CAUSES:
        for _ in range(2):
            shown = random.sample([right, *wrong], 4)
            lines = "\n".join(
                f"{letter}. {choice}" for letter, choice in zip("ABCD", shown, strict=True)
            )
            prompt = f"{text} What is most likely to follow?\n{lines}\nAnswer with the letter only."
            yield Question(
                kind="lettered_sense",
                prompt=prompt,
                accepted=("ABCD"[shown.index(right)], right),
                rule="letter",
                rivals=wrong,
                level=1,
            )
    for purpose, answers in read_pairs(USES):
        others = [other[1][0] for other in read_pairs(USES) if not set(other[1]) & set(answers)]
        shown = random.sample([answers[0], *random.sample(sorted(set(others)), 3)], 4)
        lines = "\n".join(
            f"{letter}. {choice}" for letter, choice in zip("ABCD", shown, strict=True)
        )
        prompt = f"What do you use to {purpose}?\n{lines}\nAnswer with the letter only."
        right = "ABCD"[shown.index(answers[0])]
        yield Question(
            kind="lettered_sense",
            prompt=prompt,
            accepted=(right, answers[0]),
            rule="letter",
            rivals=tuple(c for c in shown if c != answers[0]),
            level=1,
        )


def impossible(random: Random) -> Iterator[Question]:
    """Whether something can be, by plain common sense."""
    statements = """
    Can a person drink a whole lake in a day? -; Can you write with a pencil? +; Can a dog read
    a newspaper? -; Can a car drive under water like a submarine? -; Can ice float on water? +;
    Can you see your own ears without a mirror? -; Can a child be older than its mother? -; Can
    a candle burn without air? -; Can a fish climb a ladder? -; Can a ship be heavier than a
    house? +; Can you boil an egg without heat? -; Can a person be in two countries at once at a
    border? +; Can wood float? +; Can you hear a sound from the moon? -; Can a plane land on a
    runway? +; Can you melt chocolate in your hand? +; Can a triangle have two right angles on
    paper? -; Can a book have more than 1000 pages? +; Can a snail be faster than a horse? -;
    Can glass be recycled? +; Can a human live without water for a year? -; Can a magnet attract
    wood? -; Can a stone melt in a volcano? +; Can it snow in summer on a high mountain? +; Can
    you fold a sheet of paper 50 times? -; Can bread be made without yeast? +; Can a tree be
    older than a human? +; Can a person whistle? +; Can you photograph the wind itself? -; Can a
    cat swim? +; Can rain fall upwards by itself? -; Can you lift a car with one finger? -; Can
    two people have the same birthday? +; Can a year have 53 Mondays? +; Can a month have six
    Sundays? -; Can the sum of two odd numbers be odd? -; Can an even number be prime? +; Can a
    square have three corners? -; Can you freeze petrol in a home freezer? -; Can a whale drown?
    +
    """
    for entry in " ".join(statements.split()).split("; "):
        for shape in ("{} Answer yes or no.", "{} Yes or no?", "Yes or no: {}"):
            prompt = shape.format(entry[:-1].strip())
            yield Question(
                kind="impossible",
                prompt=prompt,
                accepted=("yes" if entry.endswith("+") else "no",),
                rule="yes_no",
            )


IDIOMS = """
break the ice=start|begin|conversation|tension|awkward|awkwardness|relax|comfortable; piece of
cake=easy|simple; cost an arm and a leg=expensive|costly|pricey; under the
weather=ill|sick|unwell; hit the sack=sleep|bed; spill the beans=secret|reveal|tell|secrets;
once in a blue moon=rarely|rare|seldom; let the cat out of the bag=secret|reveal| secrets; bite
the bullet=endure|face|pain|difficult|unpleasant|courage|brave|hardship; call it a
day=stop|finish|end|work; pull someone's leg=joke|tease|teasing|joking|trick|kidding|fool; the
ball is in your court=turn|decision|decide|responsibility|move|action; kill two birds with one
stone=two|both|once|same; add insult to injury=worse|worsen; a blessing in
disguise=good|benefit|beneficial|positive|fortunate; on cloud
nine=happy|happiness|joy|joyful|elated|ecstatic|delighted; get cold
feet=nervous|afraid|scared|fear|doubts|hesitate|anxious| hesitant; back to square
one=start|beginning|over|again; the last straw=limit|final|patience|last|tolerate; hit the nail
on the head=exactly|right|correct|accurate|accurately|precisely| correctly; when pigs
fly=never|impossible|unlikely; cry over spilt
milk=past|regret|changed|undone|complain|already|happened|useless; burn the midnight
oil=late|night|work|study; cut
corners=cheap|cheaply|quality|quick|quickly|shortcuts|easiest|save|skip; jump on the
bandwagon=join|popular|trend|follow|others; sit on the
fence=decide|undecided|neutral|decision|sides; a storm in a
teacup=small|minor|trivial|exaggerated|fuss|unimportant|nothing|overreaction; bark up the wrong
tree=wrong|mistaken|mistake; through thick and thin=good|bad|difficult|always|hard| loyal; see
eye to eye=agree|agreement; beat around the bush=avoid|directly|indirect|point|avoiding; miss
the boat=late|opportunity|chance; in hot water=trouble|difficult|difficulty; raining cats and
dogs=heavily|heavy|hard|pouring|rain; face the music=consequences|accept|responsibility; the
elephant in the room=obvious|ignore|ignored|avoid|problem|issue|uncomfortable
"""


def idioms(random: Random) -> Iterator[Question]:
    shapes = (
        'What does "{}" mean?',
        "Explain the idiom: {}",
        'What do people mean by "{}"? Answer shortly.',
    )
    for idiom, (needed, *_) in read_pairs(IDIOMS):
        for shape in shapes:
            words = "|".join(word.strip() for word in needed.split("|"))
            yield Question(
                kind="idioms", prompt=shape.format(idiom), accepted=(words,), rule="every"
            )


KINDS: dict[str, tuple[Kind, ...]] = {
    "logic": (orderings, syllogisms, directions, comparing_amounts, relatives),
    "common sense": (analogies, uses, causes, riddles, impossible, idioms),
    "choices": (lettered_choices, lettered_sense),
}
