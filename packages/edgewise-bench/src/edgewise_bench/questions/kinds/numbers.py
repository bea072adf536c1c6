"""Kinds of question that end in a number or a time: sums, money, units, dates, clocks."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta
from random import Random

from edgewise.calibrate.rows import Question, Rule
from edgewise_bench.questions.kinds import facts
from edgewise_bench.questions.kinds.recall import Kind

ROWS = 130  # questions a kind makes; the caller takes as many as it wants
_NAMES = facts.NAMES.split()
_DAYS, _MONTHS = facts.DAYS.split(), facts.MONTHS.split()
GOODS = {
    "apple": 0.4,
    "notebook": 2.5,
    "coffee": 3.2,
    "sandwich": 4.75,
    "pen": 1.2,
    "ticket": 12.0,
    "T-shirt": 15.5,
    "lamp": 24.9,
    "book": 9.8,
    "bottle of water": 1.1,
    "cake": 18.0,
    "cup": 6.25,
}
DISHES = {
    "pancakes": ("flour", "g", 250),
    "tomato soup": ("tomatoes", "g", 600),
    "rice pudding": ("milk", "ml", 800),
    "bread": ("flour", "g", 500),
    "lemonade": ("sugar", "g", 120),
    "omelette": ("eggs", "", 6),
    "pasta": ("spaghetti", "g", 400),
    "porridge": ("oats", "g", 160),
}


def plain(value: float) -> str:
    """A number without a needless fraction."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _number(
    kind: str, prompt: str, answer: float, level: int = 2, rule: Rule = "result"
) -> Question:
    return Question(kind=kind, prompt=prompt, accepted=(plain(answer),), rule=rule, level=level)


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]


# -- sums and money --------------------------------------------------------------------------------


def percentages(random: Random) -> Iterator[Question]:
    for _ in range(ROWS):
        share = random.choice((5, 10, 10, 12, 15, 20, 25, 30, 40, 50, 50, 75))
        whole = random.choice((random.randint(2, 12) * 10, random.randint(2, 40) * 20))
        form = random.choice(("of", "of", "off", "tip"))
        part = whole * share / 100
        if form == "of":
            shape = random.choice(
                (
                    "What is {0} % of {1}?",
                    "Calculate {0}% of {1}.",
                    "How much is {0} percent of {1}?",
                )
            )
            yield _number("percentages", shape.format(share, whole), part)
        elif form == "off":
            prompt = f"A jacket costs ${whole}. It is reduced by {share}%. What is the new price?"
            yield _number("percentages", prompt, whole - part, 3)
        else:
            prompt = f"The bill is ${whole}. How much is a tip of {share}%?"
            yield _number("percentages", prompt, part)


def shopping(random: Random) -> Iterator[Question]:
    for _ in range(ROWS):
        things = random.sample(sorted(GOODS), random.choice((1, 2, 2, 3)))
        counts = [random.randint(1, 5) for _ in things]
        total = sum(GOODS[thing] * count for thing, count in zip(things, counts, strict=True))
        listed = " and ".join(
            f"{count} x {thing} at ${GOODS[thing]:.2f} each"
            for thing, count in zip(things, counts, strict=True)
        )
        shape = random.choice(
            (
                "I buy {}. What do I pay in total?",
                "What is the total of {}?",
                "Shopping list: {}. Total price?",
            )
        )
        yield _number("shopping", shape.format(listed), total, len(things))


def change_due(random: Random) -> Iterator[Question]:
    for _ in range(ROWS):
        thing = random.choice(sorted(GOODS))
        price = random.choice(
            (GOODS[thing], float(random.randint(2, 18)), random.randint(4, 70) / 4)
        )
        note = next(note for note in (5, 10, 20, 50, 100) if note > price)
        shape = random.choice(
            (
                "I pay for a {0} that costs ${1} with a ${2} note. How much change do I get?",
                "A {0} is ${1}. I give the cashier ${2}. How much money comes back?",
            )
        )
        yield _number("change_due", shape.format(thing, plain(price), note), note - price)


def recipes(random: Random) -> Iterator[Question]:
    for _ in range(ROWS):
        dish, (thing, unit, amount) = random.choice(sorted(DISHES.items()))
        people = random.choice((2, 4))
        wanted = random.choice([n for n in (1, 2, 3, 4, 6, 8, 10, 12) if n != people])
        have = f"{amount} {unit} of {thing}" if unit else f"{amount} {thing}"
        need = amount * wanted / people
        if need != int(need) and not unit:
            continue
        ask = f"How many {unit + ' of ' if unit else ''}{thing} do I need for {wanted} people?"
        yield _number(
            "recipes", f"A recipe for {dish} for {people} people needs {have}. {ask}", need, 3
        )


def averages(random: Random) -> Iterator[Question]:
    for _ in range(ROWS):
        count = random.choice((2, 3, 3, 4, 5))
        mean = random.randint(4, 60)
        steps = [random.randint(-3, 9) for _ in range(count - 1)]
        numbers = [mean + step for step in steps] + [mean - sum(steps)]
        if min(numbers) < 1 or mean in numbers:
            continue
        shape = random.choice(
            (
                "What is the average of {}?",
                "Calculate the mean of {}.",
                "My scores were {}. What is my average?",
            )
        )
        yield _number("averages", shape.format(_listed(numbers)), mean, min(3, count - 1))


def _listed(things: list[int] | list[str]) -> str:
    words = [str(thing) for thing in things]
    return f"{', '.join(words[:-1])} and {words[-1]}"


def speeds(random: Random) -> Iterator[Question]:
    for _ in range(ROWS):
        speed, hours = (
            random.choice((4, 5, 12, 15, 30, 50, 60, 80, 90, 120)),
            random.choice((2, 3, 4, 5, 1.5, 2.5)),
        )
        way = speed * hours
        vehicle = (
            "walker"
            if speed < 10
            else "cyclist"
            if speed < 25
            else "car"
            if speed < 100
            else "train"
        )
        form = random.choice(("way", "time", "speed"))
        if form == "way":
            prompt = (
                f"A {vehicle} travels at {speed} km/h for {plain(hours)} hours. How many "
                f"kilometres is that?"
            )
            yield _number("speeds", prompt, way)
        elif form == "time":
            prompt = (
                f"A {vehicle} travels at {speed} km/h. How many hours does it take for "
                f"{plain(way)} km?"
            )
            yield _number("speeds", prompt, hours)
        else:
            prompt = (
                f"A {vehicle} covers {plain(way)} km in {plain(hours)} hours. What is its "
                f"average speed in km/h?"
            )
            yield _number("speeds", prompt, speed)


def ages(random: Random) -> Iterator[Question]:
    for _ in range(ROWS):
        name, other = random.sample(_NAMES, 2)
        age, gap = random.randint(6, 60), random.randint(2, 14)
        form = random.randrange(4)
        if form == 0:
            year = random.randint(1950, 2015)
            now = year + random.randint(3, 70)
            yield _number(
                "ages", f"{name} was born in {year}. How old does {name} turn in {now}?", now - year
            )
        elif form == 1:
            prompt = f"{name} is {age} years old. {other} is {gap} years older. How old is {other}?"
            yield _number("ages", prompt, age + gap, 1)
        elif form == 2:
            prompt = (
                f"{name} is {age + gap} years old, {gap} years older than {other}. How old "
                f"will {other} be in {gap + 1} years?"
            )
            yield _number("ages", prompt, age + gap + 1, 3)
        else:
            prompt = f"{name} is twice as old as {other}. {other} is {age}. How old is {name}?"
            yield _number("ages", prompt, 2 * age)


def powers(random: Random) -> Iterator[Question]:
    for base in range(2, 26):
        yield _number(
            "powers",
            random.choice(("What is {} squared?", "What is the square of {}?", "{}^2 =")).format(
                base
            ),
            base**2,
            2,
        )
        yield _number(
            "powers",
            random.choice(("What is the square root of {}?", "Calculate sqrt({}).")).format(
                base**2
            ),
            base,
            2,
        )
        if base < 13:
            yield _number("powers", f"What is {base} to the power of 3?", base**3, 3)
            yield _number("powers", f"What is the cube root of {base**3}?", base, 3)
            yield _number("powers", f"What is 2 to the power of {base}?", 2**base, 2)
            yield _number(
                "powers",
                f"What is {base} factorial?"
                if base < 8
                else f"What is 10 to the power of {base - 6}?",
                _factorial(base) if base < 8 else 10 ** (base - 6),
                3,
            )


def _factorial(number: int) -> int:
    return 1 if number < 2 else number * _factorial(number - 1)


def rounding(random: Random) -> Iterator[Question]:
    for _ in range(ROWS):
        places, word = random.choice(
            ((0, "whole number"), (1, "tenth"), (2, "hundredth"), (-1, "ten"), (-2, "hundred"))
        )
        value = (
            random.randint(1, 99) + random.randint(1, 999) / 1000
            if places >= 0
            else random.randint(120, 9876)
        )
        scaled = value * 10**places
        if abs(scaled - int(scaled) - 0.5) < 0.02 or abs(scaled - round(scaled)) < 0.02:
            continue  # rules differ for halves
        shape = random.choice(
            ("Round {0} to the nearest {1}.", "What is {0} rounded to the nearest {1}?")
        )
        shown = f"{value:.3f}" if places >= 0 else str(value)
        yield _number(
            "rounding", shape.format(shown, word), round(float(shown), places), 2, "number"
        )


def areas(random: Random) -> Iterator[Question]:
    for _ in range(ROWS):
        long, wide = random.randint(3, 30), random.randint(2, 20)
        prompt, answer, level = random.choice(
            (
                (
                    f"A room is {long} m long and {wide} m wide. What is its area in square "
                    f"metres?",
                    long * wide,
                    2,
                ),
                (
                    f"What is the perimeter of a rectangle with the sides {long} cm and {wide} cm?",
                    2 * (long + wide),
                    2,
                ),
                (
                    f"A square has sides of {wide} cm. What is its area in square centimetres?",
                    wide**2,
                    1,
                ),
                (f"A square has sides of {long} cm. What is its perimeter?", 4 * long, 1),
                (
                    f"A triangle has a base of {2 * wide} cm and a height of {long} cm. What is "
                    f"its area?",
                    wide * long,
                    3,
                ),
                (
                    f"A box is {wide} cm long, {wide} cm wide and {long} cm high. What is its "
                    f"volume?",
                    wide * wide * long,
                    3,
                ),
            )
        )
        yield _number("areas", prompt, answer, level)


def remainders(random: Random) -> Iterator[Question]:
    for _ in range(ROWS):
        left, right = random.randint(13, 160), random.randint(3, 12)
        if left % right in (0, 1):
            continue
        prompt, answer = random.choice(
            (
                (f"What is the remainder when {left} is divided by {right}?", left % right),
                (
                    f"{left} sweets are shared equally among {right} children. How many sweets "
                    f"are left over?",
                    left % right,
                ),
                (
                    f"Eggs are packed in boxes of {right}. How many full boxes do {left} eggs "
                    f"fill?",
                    left // right,
                ),
                (f"What is {left} modulo {right}?", left % right),
            )
        )
        yield _number("remainders", prompt, answer, 3)


def extremes(random: Random) -> Iterator[Question]:
    for _ in range(ROWS):
        numbers = random.sample(range(10, random.choice((99, 999, 9999))), random.randint(4, 7))
        word, answer = random.choice(
            (
                ("largest", max(numbers)),
                ("smallest", min(numbers)),
                ("second largest", sorted(numbers)[-2]),
            )
        )
        shape = random.choice(
            ("Which is the {0} of these numbers: {1}?", "Numbers: {1}. Which is the {0}?")
        )
        rivals = tuple(str(number) for number in numbers if number != answer)
        yield Question(
            kind="extremes",
            prompt=shape.format(word, ", ".join(map(str, numbers))),
            accepted=(str(answer),),
            rivals=rivals,
        )


def fractions(random: Random) -> Iterator[Question]:
    for low in (2, 4, 5, 8, 10, 20):
        for high in range(1, low):
            decimal = Question(
                kind="fractions",
                prompt=f"Write {high}/{low} as a decimal number.",
                accepted=(str(high / low),),
                rule="result",
            )
            yield decimal
            yield _number("fractions", f"What is {high}/{low} in percent?", 100 * high / low)
    names = {3: "third", 4: "quarter", 5: "fifth", 8: "eighth", 10: "tenth"}
    counts = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
    for _ in range(60):
        low, whole = random.choice(sorted(names)), random.randint(2, 24)
        top = random.randint(1, low - 1)
        part = f"{counts[top - 1]} {names[low]}{'s' if top > 1 else ''}"
        yield _number("fractions", f"How much is {part} of {whole * low}?", whole * top)


def roman_numerals(random: Random) -> Iterator[Question]:
    numbers = random.sample(range(2, 40), 38) + random.sample(range(40, 2030), 40)
    for number in numbers:
        if random.random() < 0.5:
            prompt = random.choice(
                (
                    "What number is the Roman numeral {}?",
                    "Convert the Roman numeral {} to a number.",
                )
            ).format(_roman(number))
            yield _number("roman_numerals", prompt, number, 2 if number < 40 else 3)
        else:
            prompt = random.choice(
                ("Write {} in Roman numerals.", "What is {} as a Roman numeral?")
            ).format(number)
            yield Question(
                kind="roman_numerals",
                prompt=prompt,
                accepted=(_roman(number),),
                case_matters=True,
                level=2 if number < 40 else 3,
            )


def _roman(number: int) -> str:
    signs = (
        (1000, "M"),
        (900, "CM"),
        (500, "D"),
        (400, "CD"),
        (100, "C"),
        (90, "XC"),
        (50, "L"),
        (40, "XL"),
        (10, "X"),
        (9, "IX"),
        (5, "V"),
        (4, "IV"),
        (1, "I"),
    )
    text = ""
    for value, sign in signs:
        text += sign * (number // value)
        number %= value
    return text


def number_bases(random: Random) -> Iterator[Question]:
    for number in random.sample(range(2, 33), 30) + random.sample(range(33, 256), 20):
        level = 2 if number < 17 else 3
        form = random.randrange(3)
        if form == 0:
            yield Question(
                kind="number_bases",
                prompt=f"What is the decimal number {number} in binary?",
                accepted=(f"{number:b}",),
                level=level,
            )
        elif form == 1:
            yield _number(
                "number_bases", f"What is the binary number {number:b} in decimal?", number, level
            )
        else:
            yield Question(
                kind="number_bases",
                prompt=f"Write the decimal number {number} in hexadecimal.",
                accepted=(f"{number:x}", f"0x{number:x}", f"{number:02x}"),
                level=level,
            )


def number_words(random: Random) -> Iterator[Question]:
    for number in random.sample(range(101, 999), 80):
        words = _in_words(number)
        yield _number(
            "number_words",
            random.choice(
                ("Write {} in digits.", "Which number is {}?", "Write this as a number: {}")
            ).format(words),
            number,
            1,
            "number",
        )
    for number in random.sample(range(1000, 99999), 40):
        words = f"{_in_words(number // 1000)} thousand" + (
            f" {_in_words(number % 1000)}" if number % 1000 else ""
        )
        yield _number(
            "number_words",
            random.choice(("Write {} in digits.", "Write this as a number: {}")).format(words),
            number,
            3,
            "number",
        )


def _in_words(number: int) -> str:
    ones = [
        "zero",
        "one",
        "two",
        "three",
        "four",
        "five",
        "six",
        "seven",
        "eight",
        "nine",
        "ten",
        "eleven",
        "twelve",
        "thirteen",
        "fourteen",
        "fifteen",
        "sixteen",
        "seventeen",
        "eighteen",
        "nineteen",
    ]
    tens = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
    if number >= 100:
        rest = number % 100
        return f"{ones[number // 100]} hundred" + (f" and {_in_words(rest)}" if rest else "")
    if number < 20:
        return ones[number]
    return tens[number // 10 - 2] + (f"-{ones[number % 10]}" if number % 10 else "")


# -- units -----------------------------------------------------------------------------------------

CONVERSIONS = (
    ("kilometres", "metres", 1000),
    ("metres", "centimetres", 100),
    ("kilograms", "grams", 1000),
    ("litres", "millilitres", 1000),
    ("hours", "minutes", 60),
    ("minutes", "seconds", 60),
    ("days", "hours", 24),
    ("weeks", "days", 7),
    ("feet", "inches", 12),
    ("yards", "feet", 3),
    ("pounds", "ounces", 16),
    ("tonnes", "kilograms", 1000),
    ("centimetres", "millimetres", 10),
    ("dozen", "pieces", 12),
    ("gigabytes", "megabytes", 1000),
    ("years", "months", 12),
)


def conversions(random: Random) -> Iterator[Question]:
    for _ in range(ROWS):
        large, small, factor = random.choice(CONVERSIONS)
        amount = random.choice((2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 2.5, 1.5, 0.5, 24, 40))
        if random.random() < 0.5:
            prompt = random.choice(
                ("How many {1} are {0} {2}?", "Convert {0} {2} to {1}.", "{0} {2} in {1}?")
            )
            yield _number(
                "conversions", prompt.format(plain(amount), small, large), amount * factor
            )
        else:
            prompt = random.choice(("How many {2} are {0} {1}?", "Convert {0} {1} to {2}."))
            yield _number(
                "conversions", prompt.format(plain(amount * factor), small, large), amount
            )


def temperatures(random: Random) -> Iterator[Question]:
    for celsius in range(-20, 105, 5):
        warm = celsius * 9 / 5 + 32
        if celsius < 0 or warm < 0:
            continue
        yield _number(
            "temperatures",
            random.choice(
                ("What is {} °C in Fahrenheit?", "Convert {} degrees Celsius to Fahrenheit.")
            ).format(celsius),
            warm,
            3,
        )
        yield _number(
            "temperatures",
            random.choice(
                ("What is {} °F in Celsius?", "Convert {} degrees Fahrenheit to Celsius.")
            ).format(plain(warm)),
            celsius,
            3,
        )
    for celsius in random.sample(range(1, 60), 30):
        yield Question(
            kind="temperatures",
            prompt=f"What is {celsius} °C in kelvin?",
            accepted=(str(celsius + 273), plain(celsius + 273.15)),
            rule="result",
            level=2,
        )
        warmer = celsius + random.choice((-7, -4, -2, 3, 5, 8))
        right = "today" if warmer < celsius else "yesterday"
        yield Question(
            kind="temperatures",
            prompt=f"Today it is {celsius} °C, yesterday it was {warmer} °C. Which day was warmer?",
            accepted=(right,),
            rivals=("today" if right == "yesterday" else "yesterday",),
            level=1,
        )


# -- dates and clocks ------------------------------------------------------------------------------


def weekdays(random: Random) -> Iterator[Question]:
    for _ in range(ROWS):
        start, steps = (
            random.randrange(7),
            random.choice((2, 3, 3, 4, 5, 6, 8, 10, 14, 20, 30, 100)),
        )
        back = random.random() < 0.3
        answer = _DAYS[(start + (-steps if back else steps)) % 7]
        if answer == _DAYS[start] and steps % 7:
            continue
        shape = (
            random.choice(
                (
                    "Today is {0}. What day of the week is it in {1} days?",
                    "If today is {0}, which weekday is it {1} days from now?",
                )
            )
            if not back
            else "Today is {0}. What day of the week was it {1} days ago?"
        )
        rivals = tuple(day for day in _DAYS if day not in (answer, _DAYS[start]))
        yield Question(
            kind="weekdays",
            prompt=shape.format(_DAYS[start], steps),
            accepted=(answer,),
            rivals=rivals,
            level=2 if steps < 7 else 3,
        )


def clock_forms(minutes: int) -> tuple[str, ...]:
    """How a time of day may be written, in 24 and in 12 hours."""
    minutes %= 24 * 60
    hour, rest = divmod(minutes, 60)
    short, half = hour % 12 or 12, "pm" if hour >= 12 else "am"
    letters = "p.m." if half == "pm" else "a.m."
    forms = [
        f"{hour}:{rest:02d}",
        f"{hour:02d}:{rest:02d}",
        f"{short}:{rest:02d} {half}",
        f"{short}:{rest:02d}{half}",
        f"{short}:{rest:02d} {letters}",
        f"{short:02d}:{rest:02d} {half}",
    ]
    if not rest:
        forms += [f"{short} {half}", f"{short}{half}", f"{short} {letters}", f"{short} o'clock"]
        forms += {0: ["midnight"], 12: ["noon"]}.get(hour, [])
    return tuple(dict.fromkeys(forms))


def clock_sums(random: Random) -> Iterator[Question]:
    for _ in range(ROWS):
        start, length = (
            random.randrange(6 * 12, 21 * 12) * 5,
            random.choice((10, 15, 20, 25, 35, 40, 45, 50, 70, 75, 90, 105, 120, 135, 150)),
        )
        shown, end = f"{start // 60}:{start % 60:02d}", start + length
        prompt = random.choice(
            (
                f"A film starts at {shown} and lasts {length} minutes. When does it end?",
                f"It is {shown} now. What time is it in {length} minutes?",
                f"The train leaves at {shown} and takes {length} minutes. When does it arrive?",
            )
        )
        hour, rest = divmod(end, 60)
        forms = (*clock_forms(end), f"{hour % 12 or 12}:{rest:02d}")
        yield Question(
            kind="clock_sums", prompt=prompt, accepted=forms, level=2 if length < 60 else 3
        )


def durations(random: Random) -> Iterator[Question]:
    for _ in range(ROWS):
        start, length = random.randrange(7 * 12, 18 * 12) * 5, random.randrange(3, 45) * 5
        end = start + length
        prompt = random.choice(
            (
                "A meeting lasts from {0} to {1}. How long is it in minutes?",
                "I left at {0} and came back at {1}. How many minutes was I away?",
                "How many minutes are there between {0} and {1}?",
            )
        ).format(f"{start // 60}:{start % 60:02d}", f"{end // 60}:{end % 60:02d}")
        yield _number("durations", prompt, length, 2 if length <= 60 else 3)


def clock_formats(random: Random) -> Iterator[Question]:
    for minutes in random.sample(range(0, 24 * 60, 5), 120):
        hour, rest = divmod(minutes, 60)
        short, half = hour % 12 or 12, "PM" if hour >= 12 else "AM"
        if hour >= 12 and random.random() < 0.5:
            prompt = random.choice(
                ("Write {}:{:02d} in 12-hour time.", "What is {}:{:02d} on a 12-hour clock?")
            )
            accepted = tuple(
                form
                for form in clock_forms(minutes)
                if not form.startswith((f"{hour}:", f"{hour:02d}:")) or hour == 12
            )
            yield Question(
                kind="clock_formats",
                prompt=prompt.format(hour, rest),
                accepted=(*accepted, f"{short}:{rest:02d}"),
                level=2,
            )
        else:
            prompt = random.choice(
                ("Write {}:{:02d} {} in 24-hour time.", "What is {}:{:02d} {} on a 24-hour clock?")
            )
            accepted = (f"{hour}:{rest:02d}", f"{hour:02d}:{rest:02d}", f"{hour:02d}{rest:02d}")
            yield Question(
                kind="clock_formats",
                prompt=prompt.format(short, rest, half),
                accepted=accepted,
                level=2,
            )


def date_forms(day: date) -> tuple[str, ...]:
    """How a date may be written in English; the year may be missing."""
    month, short = _MONTHS[day.month - 1], _MONTHS[day.month - 1][:3]
    ending = "th" if 10 < day.day < 14 else {1: "st", 2: "nd", 3: "rd"}.get(day.day % 10, "th")
    numbers = (f"{day.day}", f"{day.day}{ending}", f"{day.day:02d}")
    forms = [f"{name} {number}" for name in (month, short) for number in numbers]
    forms += [
        f"{number} {of}{name}"
        for name in (month, short)
        for number in numbers
        for of in ("", "of ")
    ]
    forms += [
        day.isoformat(),
        f"{day.month}/{day.day}",
        f"{day.month:02d}/{day.day:02d}",
        f"{day.day}.{day.month}.",
        f"{day.day:02d}.{day.month:02d}.",
    ]
    return tuple(forms)


def date_sums(random: Random) -> Iterator[Question]:
    for _ in range(ROWS):
        start = date(2025, 1, 1) + timedelta(random.randrange(330))
        steps = random.choice((1, 2, 3, 5, 7, 10, 14, 21, 30))
        end = start + timedelta(steps)
        shown, named = (
            f"{start.day} {_MONTHS[start.month - 1]} 2025",
            f"{end.day} {_MONTHS[end.month - 1]}",
        )
        form = random.randrange(3)
        if form == 0:
            yield _number(
                "date_sums", f"How many days are there from {shown} to {named} 2025?", steps, 2
            )
        elif form == 1:
            yield Question(
                kind="date_sums",
                prompt=f"What is the date {steps} days after {shown}?",
                accepted=date_forms(end),
                level=2,
            )
        else:
            yield Question(
                kind="date_sums",
                prompt=f"The parcel was sent on {shown} and takes {steps} days. On which date "
                f"does it arrive?",
                accepted=date_forms(end),
                level=2,
            )


def date_formats(random: Random) -> Iterator[Question]:
    for _ in range(ROWS):
        day = date(1990, 1, 1) + timedelta(random.randrange(14000))
        if day.day <= 12:
            continue  # day and month could be taken for each other
        long = f"{_MONTHS[day.month - 1]} {day.day}, {day.year}"
        prompt, accepted = random.choice(
            (
                (f"Write the date {long} in the form YYYY-MM-DD.", (day.isoformat(),)),
                (
                    f"Write {day.isoformat()} as a date with the name of the month.",
                    tuple(f for f in date_forms(day) if f[:1].isalpha() or f[-1:].isalpha()),
                ),
                (f"Write the date {long} in the form DD/MM/YYYY.", (day.strftime("%d/%m/%Y"),)),
                (f"Which month is the date {day.isoformat()} in?", (_MONTHS[day.month - 1],)),
            )
        )
        yield Question(kind="date_formats", prompt=prompt, accepted=accepted, level=2)


def time_zones(random: Random) -> Iterator[Question]:
    offsets = {
        "London": 0,
        "Berlin": 1,
        "Cairo": 2,
        "Dubai": 4,
        "Delhi": 5,
        "Bangkok": 7,
        "Tokyo": 9,
        "New York": -5,
        "Chicago": -6,
        "Los Angeles": -8,
        "Sydney": 10,
    }
    for _ in range(ROWS):
        here, there = random.sample(sorted(set(offsets) - {"Delhi"}), 2)
        gap, hour = offsets[there] - offsets[here], random.randrange(8, 20)
        if not gap or not 0 <= hour + gap < 24:
            continue
        word = "ahead of" if gap > 0 else "behind"
        prompt = (
            f"{there} is {abs(gap)} hours {word} {here}. It is {hour}:00 in {here}. What "
            f"time is it in {there}?"
        )
        end = hour + gap
        yield Question(
            kind="time_zones",
            prompt=prompt,
            accepted=(*clock_forms(60 * end), f"{end % 12 or 12}:00"),
            level=2,
        )


def leap_years(random: Random) -> Iterator[Question]:
    for year in random.sample(range(1880, 2101), 100):
        leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
        yield Question(
            kind="leap_years",
            prompt=random.choice(
                ("Is {} a leap year? Answer yes or no.", "Was or is {} a leap year, yes or no?")
            ).format(year),
            accepted=("yes" if leap else "no",),
            rule="yes_no",
            level=2,
        )


KINDS: dict[str, tuple[Kind, ...]] = {
    "sums": (percentages, averages, powers, rounding, remainders, extremes, fractions),
    "everyday sums": (
        shopping,
        change_due,
        recipes,
        speeds,
        ages,
        areas,
        conversions,
        temperatures,
    ),
    "notations": (roman_numerals, number_bases, number_words),
    "dates and times": (
        weekdays,
        clock_sums,
        durations,
        clock_formats,
        date_sums,
        date_formats,
        time_zones,
        leap_years,
    ),
}
