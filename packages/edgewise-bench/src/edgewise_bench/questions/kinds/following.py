"""Kinds of question that must be followed to the letter: formats, lists, letters, counts."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from edgewise.calibrate.rows import Question
from edgewise_bench.questions.kinds import facts
from edgewise_bench.questions.kinds.recall import Kind
from edgewise_bench.questions.kinds.rewriting import SENTENCES

ROWS = 120
WORDS = list(dict.fromkeys((facts.PLAIN_WORDS + facts.PASSAGE_WORDS).split()))
GROUPS = {
    "fruits": "apple|apples banana|bananas orange|oranges pear|pears grape|grapes "
    "cherry|cherries mango|mangoes|mangos peach|peaches plum|plums lemon|lemons lime|limes "
    "kiwi|kiwis strawberry|strawberries raspberry|raspberries blueberry|blueberries "
    "pineapple|pineapples watermelon|watermelons melon|melons papaya|papayas fig|figs "
    "apricot|apricots pomegranate|pomegranates coconut|coconuts avocado|avocados "
    "grapefruit|grapefruits blackberry|blackberries nectarine|nectarines guava|guavas "
    "date|dates tomato|tomatoes dragonfruit cranberry|cranberries",
    "colours": "red blue green yellow purple pink brown black white orange grey|gray violet "
    "indigo turquoise cyan magenta gold silver beige teal navy maroon",
    "European countries": "france germany italy spain portugal poland austria switzerland "
    "sweden norway denmark finland greece hungary ireland belgium netherlands romania "
    "bulgaria croatia serbia ukraine russia iceland estonia latvia lithuania slovakia "
    "slovenia czech|czechia albania malta luxembourg england|kingdom|uk turkey monaco "
    "cyprus andorra",
    "days of the week": "monday tuesday wednesday thursday friday saturday sunday",
    "planets": "mercury venus earth mars jupiter saturn uranus neptune",
    "musical instruments": "piano|pianos guitar|guitars violin|violins trumpet|trumpets "
    "flute|flutes drum|drums cello|cellos harp|harps saxophone|saxophones "
    "clarinet|clarinets viola|violas trombone|trombones oboe|oboes bass tuba|tubas "
    "accordion|accordions organ banjo|banjos ukulele|ukuleles mandolin|mandolins keyboard "
    "xylophone bassoon harmonica",
    "vegetables": "carrot|carrots potato|potatoes onion|onions cabbage spinach broccoli lettuce "
    "leek|leeks cucumber|cucumbers tomato|tomatoes pepper|peppers bean|beans pea|peas "
    "cauliflower zucchini|courgette garlic celery kale radish|radishes beet|beets|beetroot "
    "asparagus pumpkin eggplant|aubergine corn turnip|turnips",
    "zoo animals": "lion|lions tiger|tigers elephant|elephants giraffe|giraffes zebra|zebras "
    "monkey|monkeys bear|bears penguin|penguins hippo|hippos|hippopotamus "
    "rhino|rhinos|rhinoceros gorilla|gorillas crocodile|crocodiles kangaroo|kangaroos "
    "panda|pandas camel|camels leopard|leopards cheetah|cheetahs wolf|wolves "
    "flamingo|flamingos seal|seals ostrich|ostriches chimpanzee|chimpanzees koala|koalas "
    "parrot|parrots snake|snakes deer otter|otters orangutan|orangutans jaguar|jaguars "
    "lemur|lemurs",
    "pieces of clothing": "shirt|shirts hat|hats coat|coats trousers|pants sock|socks "
    "glove|gloves scarf|scarves skirt|skirts jacket|jackets dress|dresses shoes|shoe jeans "
    "sweater|sweaters|jumper belt|belts tie|ties shorts blouse|blouses cap|caps boots "
    "hoodie|hoodies suit vest|vests underwear cardigan|cardigans",
    "sports": "football|soccer tennis basketball baseball hockey golf swimming volleyball rugby "
    "cricket boxing cycling running badminton skiing gymnastics athletics wrestling surfing "
    "judo karate archery rowing skating handball snowboarding",
    "metals": "iron gold silver copper zinc nickel tin lead aluminium|aluminum titanium "
    "platinum mercury chromium steel cobalt tungsten magnesium lithium sodium uranium brass "
    "bronze",
    "months": "january february march april may june july august september october november "
    "december",
}


def listing(random: Random) -> Iterator[Question]:
    """So many members of a group, no more and no fewer."""
    shapes = (
        "List {0} {1}.",
        "Name {0} {1}, separated by commas.",
        "Give me {0} {1}, nothing else.",
        "Write down exactly {0} {1}.",
        "Tell me {0} {1}.",
    )
    for group, members in GROUPS.items():
        for count, shape in zip((2, 3, 3, 4, 5), random.sample(shapes, 5), strict=True):
            word = random.choice((str(count), ("two", "three", "four", "five")[count - 2]))
            accepted = (str(count), *members.split())
            yield Question(
                kind="listing", prompt=shape.format(word, group), accepted=accepted, rule="pick"
            )


def reversing(random: Random) -> Iterator[Question]:
    for _ in range(ROWS):
        chosen = (
            random.sample(WORDS, random.randint(3, 5))
            if random.random() < 0.6
            else [str(n) for n in random.sample(range(2, 90), 4)]
        )
        backwards = chosen[::-1]
        shape = random.choice(
            (
                "Write this list in reverse order: {}",
                "Reverse the order: {}",
                "Say these from last to first: {}",
            )
        )
        yield Question(
            kind="reversing",
            prompt=shape.format(", ".join(chosen)),
            accepted=tuple(backwards),
            rule="in_order",
        )


_IN_ANY_SENTENCE = frozenset(
    [
        "the",
        "a",
        "is",
        "i",
        "in",
        "at",
        "to",
        "of",
        "with",
        "this",
        "will",
        "was",
        "were",
        "it",
        "her",
        "my",
        "his",
        "our",
        "please",
        "more",
    ]
)


def picking_words(random: Random) -> Iterator[Question]:
    places = ("first", "second", "third", "fourth", "last")
    for _ in range(ROWS):
        sentence = random.choice(SENTENCES)
        words = sentence.rstrip(".").replace(",", "").split()
        place = random.choice(places)
        if place != "last" and places.index(place) >= len(words):
            continue
        answer = words[-1] if place == "last" else words[places.index(place)]
        if words.count(answer) > 1 or answer.lower() in _IN_ANY_SENTENCE:
            continue
        shape = random.choice(
            ('What is the {0} word of "{1}"?', "Give only the {0} word of this sentence: {1}")
        )
        rivals = tuple(word for word in words if word != answer and len(word) > 3)
        yield Question(
            kind="picking_words",
            prompt=shape.format(place, sentence),
            accepted=(answer,),
            rivals=rivals,
        )


def initials(random: Random) -> Iterator[Question]:
    for _ in range(ROWS):
        chosen = random.sample(WORDS, random.randint(3, 4))
        letters = "".join(word[0] for word in chosen).upper()
        shape = random.choice(
            (
                "Write the first letters of these words as one word: {}",
                "Make an acronym from the first letters: {}",
                "Which abbreviation do the initials of {} make?",
            )
        )
        yield Question(
            kind="initials",
            prompt=shape.format(", ".join(chosen)),
            accepted=(letters, " ".join(letters)),
        )


def counting_letters(random: Random) -> Iterator[Question]:
    words = [
        *WORDS,
        *facts.HARD_WORDS.split(),
        "banana",
        "mississippi",
        "committee",
        "bookkeeper",
        "assessment",
        "parallel",
    ]
    for _ in range(ROWS):
        word = random.choice(words)
        form = random.randrange(3)
        if form == 0:
            letter = random.choice(word)
            prompt, answer = (
                f'How many times does the letter "{letter}" occur in "{word}"?',
                word.count(letter),
            )
        elif form == 1:
            prompt, answer = (
                f'How many vowels are in the word "{word}"?',
                sum(letter in "aeiou" for letter in word),
            )
        else:
            sentence = random.choice(SENTENCES)
            prompt, answer = (
                f"How many words are in this sentence? {sentence}",
                len(sentence.split()),
            )
        once = ("once", "one time") if answer == 1 else ("twice",) if answer == 2 else ()
        rivals = tuple(str(n) for n in range(1, 20) if n != answer)
        yield Question(
            kind="counting_letters",
            prompt=prompt,
            accepted=(str(answer), *once, *(("one",) if answer == 1 else ())),
            rivals=rivals,
            level=3,
        )


def repeating(random: Random) -> Iterator[Question]:
    for _ in range(ROWS):
        word, times = random.choice(WORDS), random.randint(2, 5)
        said = ("two", "three", "four", "five")[times - 2]
        shape = random.choice(
            (
                'Write the word "{0}" {1} times.',
                "Repeat {0} exactly {1} times, separated by spaces.",
                'Say "{0}" {1} times in a row.',
            )
        )
        exact = " ".join([word] * times)
        yield Question(
            kind="repeating", prompt=shape.format(word, said), accepted=(exact,), rule="exact"
        )


def one_word_only(random: Random) -> Iterator[Question]:
    """A simple question whose answer must be nothing but the word that is asked for."""
    asked = (
        (
            "What is the capital of {}?",
            "France=Paris Italy=Rome Spain=Madrid Japan=Tokyo Greece=Athens Ireland=Dublin "
            "Austria=Vienna Norway=Oslo Egypt=Cairo Peru=Lima Cuba=Havana Kenya=Nairobi",
        ),
        (
            "What is the opposite of {}?",
            "hot=cold up=down big=small fast=slow wet=dry old=young/new full=empty high=low "
            "loud=quiet early=late open=closed/shut/close",
        ),
        ("What colour is {}?", "snow=white grass=green blood=red coal=black milk=white"),
        (
            "What is {} in digits?",
            "seven=7 twelve=12 twenty=20 fifteen=15 thirty=30 eleven=11 nineteen=19 sixty=60",
        ),
        (
            "Which animal says {}?",
            "woof=dog/dogs meow=cat/cats moo=cow/cows quack=duck/ducks baa=sheep oink=pig/pigs",
        ),
    )
    orders = (
        "Answer with one word.",
        "One word only.",
        "Reply with a single word and no punctuation.",
        "Give just the word.",
    )
    for shape, table in asked:
        for entry in table.split():
            thing, _, answers = entry.partition("=")
            for order in random.sample(orders, 2):
                yield Question(
                    kind="one_word_only",
                    prompt=f"{shape.format(thing)} {order}",
                    accepted=tuple(answers.split("/")),
                    rule="exact",
                    level=2,
                )


def lines_and_marks(random: Random) -> Iterator[Question]:
    """A list in another notation; the order must stay."""
    for _ in range(ROWS):
        chosen = random.sample(WORDS, random.randint(3, 5))
        form = random.randrange(3)
        if form == 0:
            prompt, accepted = (
                f"Join these words with hyphens: {', '.join(chosen)}",
                ("-".join(chosen),),
            )
        elif form == 1:
            prompt, accepted = (
                f"Write these words as a JSON array: {', '.join(chosen)}",
                ("[" + ", ".join(f'"{word}"' for word in chosen) + "]",),
            )
        else:
            prompt, accepted = (
                f"Number this list from 1: {', '.join(chosen)}",
                (" ".join(f"{number}. {word}" for number, word in enumerate(chosen, start=1)),),
            )
        yield Question(
            kind="lines_and_marks",
            prompt=prompt,
            accepted=accepted,
            rule="json" if form == 1 else "mention",
        )


def filtering(random: Random) -> Iterator[Question]:
    for _ in range(ROWS):
        chosen = random.sample(WORDS, 6)
        letter = random.choice(chosen)[0]
        kept = [word for word in chosen if word[0] == letter]
        numbers = random.sample(range(2, 60), 6)
        limit = random.randint(15, 45)
        form = random.randrange(3)
        if form == 0:
            wanted, rest = kept, [word for word in chosen if word[0] != letter]
            prompt = f'Which of these words begin with "{letter}"? {", ".join(chosen)}'
        elif form == 1:
            wanted = [str(n) for n in numbers if n > limit]
            rest = [str(n) for n in numbers if n <= limit]
            prompt = (
                f"Which of these numbers are greater than {limit}? {', '.join(map(str, numbers))}"
            )
        else:
            wanted = [str(n) for n in numbers if n % 2 == 0]
            rest = [str(n) for n in numbers if n % 2]
            prompt = f"Which of these numbers are even? {', '.join(map(str, numbers))}"
        if 1 <= len(wanted) <= 4 and str(limit) not in map(str, numbers):
            yield Question(
                kind="filtering",
                prompt=prompt,
                accepted=tuple(wanted),
                rule="every",
                rejected=tuple(rest),
                level=2,
            )


def word_order(random: Random) -> Iterator[Question]:
    for sentence in SENTENCES:
        words = sentence.rstrip(".").replace(",", "").split()
        if len(words) > 8:
            continue
        for _ in range(2):
            mixed = random.sample(words, len(words))
            if mixed != words:
                prompt = random.choice(
                    (
                        "Put these words in order to make a sentence: {}",
                        "Unscramble this sentence: {}",
                    )
                ).format(" / ".join(mixed))
                yield Question(
                    kind="word_order", prompt=prompt, accepted=(" ".join(words),), level=2
                )


KINDS: dict[str, tuple[Kind, ...]] = {
    "instructions": (listing, one_word_only, repeating, lines_and_marks, filtering, picking_words),
    "letters and order": (reversing, initials, counting_letters, word_order),
}
