"""Kinds of question about a text, a message, a table or a record that the prompt holds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date, timedelta
from random import Random

from edgewise.calibrate.rows import Question
from edgewise_bench.questions.kinds.numbers import clock_forms, date_forms
from edgewise_bench.questions.kinds.recall import Kind

ROWS = 125
FIRST = [
    "Anna",
    "Tom",
    "Maria",
    "Peter",
    "Lucy",
    "David",
    "Nina",
    "Paul",
    "Emma",
    "Jack",
    "Sara",
    "Oscar",
    "Hannah",
    "Leo",
    "Clara",
    "Victor",
    "Ines",
    "Noah",
    "Alice",
    "Martin",
]
LAST = [
    "Berg",
    "Keller",
    "Novak",
    "Rossi",
    "Dubois",
    "Jensen",
    "Moreau",
    "Silva",
    "Fischer",
    "Walsh",
    "Costa",
    "Lindqvist",
    "Baker",
    "Okafor",
    "Tanaka",
    "Weber",
    "Popov",
    "Haddad",
    "Nowak",
    "Reyes",
]
FIRMS = [
    "Northwind",
    "Bluebird",
    "Halcyon",
    "Ferrum",
    "Lakeside",
    "Orbita",
    "Pinecone",
    "Quayside",
    "Redwood",
    "Solaris",
]
TOWNS = [
    "Oslo",
    "Lisbon",
    "Boston",
    "Cairo",
    "Dublin",
    "Vienna",
    "Madrid",
    "Toronto",
    "Prague",
    "Ghent",
    "Turin",
    "Leeds",
    "Bergen",
    "Porto",
    "Graz",
]
STREETS = (
    "Mill Street",
    "King Street",
    "Oak Avenue",
    "Station Road",
    "Harbour Lane",
    "Church Road",
    "Park Avenue",
    "River Street",
)
ITEMS = [
    "kettle",
    "backpack",
    "keyboard",
    "toaster",
    "tent",
    "monitor",
    "blender",
    "suitcase",
    "headphones",
    "scooter",
    "printer",
    "jacket",
]
MEETINGS = (
    "budget meeting",
    "project review",
    "job interview",
    "team lunch",
    "dentist appointment",
    "sales call",
    "parents' evening",
    "design workshop",
)
MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]


def _name(random: Random) -> str:
    return f"{random.choice(FIRST)} {random.choice(LAST)}"


def _day(random: Random) -> date:
    return date(2025, 1, 1) + timedelta(random.randrange(720))


def _long(day: date) -> str:
    return f"{day.day} {MONTHS[day.month - 1]} {day.year}"


class Mail:
    """A made-up message with everything one may ask about."""

    def __init__(self, random: Random) -> None:
        self.sender, self.other = random.sample(
            [f"{a} {b}" for a in FIRST[:10] for b in LAST[:10]], 2
        )
        first, last = self.sender.lower().split()
        self.firm, self.item = random.choice(FIRMS), random.choice(ITEMS)
        self.mail = (
            random.choice(
                (f"{first}.{last}", f"{first[0]}{last}", f"{first}{random.randint(2, 99)}")
            )
            + f"@{self.firm.lower()}.{random.choice(('com', 'org', 'net'))}"
        )
        area, number = random.randint(100, 999), random.randint(100000, 999999)
        self.phone = f"+{random.choice((44, 49, 33, 47))} {area} {number}"
        self.order = (
            f"{random.choice('ABKRT')}{random.choice('CDEFX')}-{random.randint(10000, 99999)}"
        )
        self.price = f"{random.randint(12, 480)}.{random.choice(('00', '50', '95', '99', '25'))}"
        self.day = _day(random)
        self.town, self.street = (
            random.choice(TOWNS),
            f"{random.randint(2, 98)} {random.choice(STREETS)}",
        )
        self.code = f"{random.randint(10000, 99999)}"
        self.text = random.choice(LETTERS).format(m=self, day=_long(self.day))


LETTERS = (
    "Hello, my name is {m.sender} from {m.firm}. On {day} I ordered a {m.item} for ${m.price} "
    "(order {m.order}), but it has not arrived in {m.town}. {m.other} in your shop could "
    "not help me. Please write to {m.mail} or call {m.phone}.",
    "Subject: Order {m.order}\nDear {m.other},\nthe {m.item} for ${m.price} was sent on {day} "
    "to {m.street}, {m.code} {m.town}. Questions? {m.mail}, "
    "{m.phone}.\nRegards,\n{m.sender}, {m.firm}",
    "Hi {m.other}, this is {m.sender}. I will pay the ${m.price} for the {m.item} on {day}. My "
    "address is {m.street}, {m.code} {m.town}, my number is {m.phone} and my e-mail is "
    "{m.mail}. The order number was {m.order}. We met at {m.firm}.",
    "INVOICE {m.order} | {m.firm} | Customer: {m.sender}, {m.street}, {m.code} {m.town} | Item: "
    "{m.item} | Total: ${m.price} | Due: {day} | Contact: {m.other}, {m.phone}, {m.mail}",
)
ASKED: dict[str, tuple[tuple[str, ...], str]] = {
    "e_mails": (
        (
            "What is the e-mail address in this text?",
            "Extract the e-mail address.",
            "Find the e-mail address and write only that.",
        ),
        "mail",
    ),
    "phone_numbers": (
        (
            "What is the phone number in this text?",
            "Extract the telephone number.",
            "Which number can be called?",
        ),
        "phone",
    ),
    "order_numbers": (
        (
            "What is the order or invoice number?",
            "Extract the order number.",
            "Which order or invoice is this about? Give its number.",
        ),
        "order",
    ),
    "amounts": (
        ("What amount of money is mentioned?", "How much does it cost?", "Extract the price."),
        "price",
    ),
    "goods": (
        ("Which product is this about?", "What was ordered or sold?", "Name the item in one word."),
        "item",
    ),
    "firms": (
        (
            "Which company is named in this text?",
            "Extract the name of the company.",
            "What is the company called?",
        ),
        "firm",
    ),
    "senders": (
        (
            "Which towns or cities are mentioned? Name one.",
            "Which city is mentioned?",
            "Extract the city.",
        ),
        "town",
    ),
}


def _about_mail(kind: str, name: str) -> Kind:
    asks, field = ASKED[name]

    def ask(random: Random) -> Iterator[Question]:
        for _ in range(ROWS):
            mail = Mail(random)
            shape = random.choice(("{1}\n\n{0}", "{0}\n\n{1}", "Text: {0}\nQuestion: {1}"))
            yield Question(
                kind=kind,
                prompt=shape.format(mail.text, random.choice(asks)),
                accepted=(getattr(mail, field),),
                rejected=(mail.mail if field == "phone" else mail.phone,),  # all of it, copied
                level=1,
            )

    return ask


e_mails = _about_mail("e_mails", "e_mails")
phone_numbers = _about_mail("phone_numbers", "phone_numbers")
order_numbers = _about_mail("order_numbers", "order_numbers")
amounts = _about_mail("amounts", "amounts")
goods = _about_mail("goods", "goods")
firms = _about_mail("firms", "firms")
towns = _about_mail("towns", "senders")


def dates_in_text(random: Random) -> Iterator[Question]:
    for _ in range(ROWS):
        mail = Mail(random)
        ask = random.choice(
            ("Which date is mentioned?", "Extract the date.", "What is the date in this text?")
        )
        if random.random() < 0.4:
            ask += " Write it as YYYY-MM-DD."
            accepted: tuple[str, ...] = (mail.day.isoformat(),)
        else:
            accepted = date_forms(mail.day)
        yield Question(
            kind="dates_in_text", prompt=f"{mail.text}\n\n{ask}", accepted=accepted, level=2
        )


def names_in_text(random: Random) -> Iterator[Question]:
    for _ in range(ROWS):
        mail = Mail(random)
        ask = random.choice(
            (
                "Which two people are named in this text?",
                "List all names of persons.",
                "Extract the names of the people.",
            )
        )
        yield Question(
            kind="names_in_text",
            prompt=f"{mail.text}\n\n{ask}",
            accepted=(mail.sender, mail.other),
            rule="every",
            level=2,
        )


def as_json(random: Random) -> Iterator[Question]:
    for _ in range(ROWS):
        mail = Mail(random)
        fields = {
            "item": mail.item,
            "city": mail.town,
            "order": mail.order,
            "email": mail.mail,
            "company": mail.firm,
        }
        keys = random.sample(sorted(fields), random.choice((1, 2, 2, 3)))
        wanted = {key: fields[key] for key in keys}
        listed = ", ".join(f'"{key}"' for key in keys)
        prompt = (
            f"Answer with a JSON object with the keys {listed} and nothing else, taken "
            f"from this text:\n{mail.text}"
        )
        yield Question(
            kind="as_json",
            prompt=prompt,
            accepted=(json.dumps(wanted),),
            rule="json",
            level=len(keys),
        )


def json_fields(random: Random) -> Iterator[Question]:
    for _ in range(ROWS):
        people = [
            {
                "id": random.randint(100, 999),
                "name": name,
                "age": random.randint(19, 79),
                "city": random.choice(TOWNS),
                "active": random.random() < 0.5,
            }
            for name in random.sample(FIRST, random.choice((1, 2, 3)))
        ]
        one = random.choice(people)
        key = random.choice(("id", "age", "city"))
        text = json.dumps(
            people[0] if len(people) == 1 else {"users": people}, indent=random.choice((None, 2))
        )
        asked = {
            "id": f"What is the id of {one['name']}?",
            "age": f"How old is {one['name']}?",
            "city": f"Which city does {one['name']} live in?",
        }[key]
        rivals = tuple(str(each[key]) for each in people if each[key] != one[key])
        yield Question(
            kind="json_fields",
            prompt=f"{text}\n\n{asked}",
            accepted=(str(one[key]),),
            rivals=rivals,
            level=len(people),
        )


def _table(random: Random) -> tuple[str, list[tuple[str, int, int]]]:
    rows = [
        (name, random.randint(3, 95), random.randint(100, 990))
        for name in random.sample(sorted(ITEMS), random.randint(3, 5))
    ]
    if random.random() < 0.5:
        lines = ["| product | stock | price |", "|---|---|---|"] + [
            f"| {name} | {stock} | {price} |" for name, stock, price in rows
        ]
    else:
        lines = ["product,stock,price"] + [f"{name},{stock},{price}" for name, stock, price in rows]
    return "\n".join(lines), rows


def tables(random: Random) -> Iterator[Question]:
    for _ in range(ROWS):
        text, rows = _table(random)
        name, stock, price = random.choice(rows)
        ask, answer, others = random.choice(
            (
                (f"How many pieces of {name} are in stock?", stock, [row[1] for row in rows]),
                (f"What is the price of {name}?", price, [row[2] for row in rows]),
            )
        )
        rivals = tuple(str(other) for other in others if other != answer)
        yield Question(
            kind="tables",
            prompt=f"{text}\n\n{ask}",
            accepted=(str(answer),),
            rivals=rivals,
            level=1,
        )


def table_extremes(random: Random) -> Iterator[Question]:
    for _ in range(ROWS):
        text, rows = _table(random)
        column, word = random.choice(
            ((1, "largest stock"), (1, "smallest stock"), (2, "highest price"), (2, "lowest price"))
        )
        best = (max if word.split()[0] in ("largest", "highest") else min)(
            rows, key=lambda row: row[column]
        )
        if sum(row[column] == best[column] for row in rows) > 1:
            continue
        rivals = tuple(row[0] for row in rows if row != best)
        ask = random.choice(("Which product has the {}?", "Name the product with the {}."))
        yield Question(
            kind="table_extremes",
            prompt=f"{text}\n\n{ask.format(word)}",
            accepted=(best[0],),
            rivals=rivals,
        )


def table_sums(random: Random) -> Iterator[Question]:
    for _ in range(ROWS):
        text, rows = _table(random)
        form = random.randrange(3)
        if form == 0:
            ask, answer = "How many products are in the table?", len(rows)
        elif form == 1:
            ask, answer = "What is the total stock of all products?", sum(row[1] for row in rows)
        else:
            limit = random.choice((30, 50, 400, 600))
            word = "in stock" if limit < 100 else "as price"
            ask, answer = (
                f"How many products have more than {limit} {word}?",
                sum((stock if limit < 100 else price) > limit for _, stock, price in rows),
            )
        yield Question(
            kind="table_sums",
            prompt=f"{text}\n\n{ask}",
            accepted=(str(answer),),
            rule="result",
            level=3,
        )


def invitations(random: Random) -> Iterator[Question]:
    for _ in range(ROWS):
        host, guest = random.sample(FIRST, 2)
        what, town, day = random.choice(MEETINGS), random.choice(TOWNS), _day(random)
        minutes, room = (
            random.randrange(8 * 4, 19 * 4) * 15,
            f"room {random.randint(2, 40)}{random.choice('ABC')}",
        )
        at = f"{minutes // 60}:{minutes % 60:02d}"
        text = random.choice(
            (
                f"Hi {guest}, the {what} is on {_long(day)} at {at} in {room}, {town}. See you "
                f"there, {host}",
                f"Reminder from {host}: {what} at {at} on {_long(day)} ({room} in {town}). "
                f"{guest}, please bring the slides.",
                f"{host} invites you to a {what}.\nWhen: {_long(day)}, {at}\nWhere: {room}, "
                f"{town}\nAlso invited: {guest}",
            )
        )
        ask, accepted, rivals = random.choice(
            (
                (f"When does the {what} begin?", clock_forms(minutes), ()),
                ("On which date is it?", date_forms(day), ()),
                ("In which room is it?", (room, room.split()[1]), ()),
                ("Who sent this message?", (host,), (guest,)),
                ("In which city is it?", (town,), ()),
                ("What kind of meeting or event is it?", (what,), ()),
            )
        )
        yield Question(
            kind="invitations",
            prompt=f"{text}\n\n{ask}",
            accepted=tuple(accepted),
            rivals=tuple(rivals),
            level=1,
        )


def timetables(random: Random) -> Iterator[Question]:
    for _ in range(ROWS):
        stops = random.sample(TOWNS, 4)
        start, lines = random.randrange(6 * 12, 18 * 12) * 5, []
        times = [start]
        for _stop in stops[1:]:
            times.append(times[-1] + random.randrange(4, 14) * 5)
        lines = [
            f"{stop} {minutes // 60}:{minutes % 60:02d}"
            for stop, minutes in zip(stops, times, strict=True)
        ]
        text = "Train timetable: " + ", ".join(lines) + "."
        place = random.randrange(1, 4)
        form = random.randrange(3)
        if form == 0:
            question = Question(
                kind="timetables",
                prompt=f"{text} When is the train in {stops[place]}?",
                accepted=clock_forms(times[place]),
                level=1,
            )
        elif form == 1:
            question = Question(
                kind="timetables",
                prompt=f"{text} How many minutes does the train take from {stops[place - 1]} to "
                f"{stops[place]}?",
                accepted=(str(times[place] - times[place - 1]),),
                rule="result",
                level=3,
            )
        else:
            question = Question(
                kind="timetables",
                prompt=f"{text} Which stop comes right after {stops[place - 1]}?",
                accepted=(stops[place],),
                rivals=tuple(
                    stop for stop in stops if stop not in (stops[place], stops[place - 1])
                ),
                level=2,
            )
        yield question


def opening_hours(random: Random) -> Iterator[Question]:
    days = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
    for _ in range(ROWS):
        opens, closes, late = (
            random.choice((8, 9, 10)),
            random.choice((17, 18, 19)),
            random.choice((20, 21, 22)),
        )
        special, shut = random.sample(days, 2)
        place = random.choice(
            ("library", "museum", "swimming pool", "post office", "bakery", "gym")
        )
        text = (
            f"The {place} is open from {opens}:00 to {closes}:00. On {special}s it stays "
            f"open until {late}:00. It is closed on {shut}s."
        )
        day = random.choice(days)
        hour = random.choice((7, opens + 1, closes - 1, closes + 1, late - 1, 23))
        end = late if day == special else closes
        is_open = day != shut and opens <= hour < end
        if random.random() < 0.6:
            yield Question(
                kind="opening_hours",
                prompt=f"{text} Is it open on {day} at {hour}:30? Answer yes or no.",
                accepted=("yes" if is_open else "no",),
                rule="yes_no",
                level=2,
            )
        elif day != shut:
            yield Question(
                kind="opening_hours",
                prompt=f"{text} When does it close on {day}s?",
                accepted=clock_forms(60 * end),
                level=2,
            )


TOPICS = {
    "sports": (
        "The striker scored twice in the last ten minutes and the team reached the final.",
        "After five sets the young player won her first tournament on grass.",
        "The coach praised the goalkeeper after the draw against the champions.",
        "He broke the national record over 400 metres by two tenths of a second.",
        "The club signed a new defender for three seasons.",
    ),
    "cooking": (
        "Heat the oil, add the onions and stir until they are golden.",
        "Let the dough rest for an hour before you put it into the oven.",
        "Season the soup with salt, pepper and a little lemon.",
        "Whisk the eggs with sugar and fold in the flour.",
        "Simmer the sauce on low heat and serve it over pasta.",
    ),
    "politics": (
        "Parliament voted on the new law after a debate of nine hours.",
        "The minister resigned one week before the election.",
        "Both parties agreed to form a government.",
        "The president signed the treaty in the capital.",
        "Voters will choose a new mayor in May.",
    ),
    "weather": (
        "Showers in the morning, dry and windy in the afternoon, 14 degrees.",
        "A cold front brings snow to the north tonight.",
        "Temperatures climb above thirty degrees by the weekend.",
        "Fog in the valleys will lift before noon.",
        "Thunderstorms are expected along the coast.",
    ),
    "health": (
        "Patients should take the tablets twice a day with water.",
        "Doctors advise older people to get the flu vaccine in autumn.",
        "Regular sleep lowers blood pressure, a new study says.",
        "The nurse checked the wound and changed the bandage.",
        "Drinking enough water helps against headaches.",
    ),
    "technology": (
        "The update fixes a bug that drained the phone's battery.",
        "The new laptop has a faster processor and twice the memory.",
        "Engineers trained the network on millions of images.",
        "The app now works without an internet connection.",
        "A robot sorts the parcels in the warehouse.",
    ),
    "finance": (
        "Shares fell by three percent after the bank raised interest rates.",
        "The company's profit doubled in the last quarter.",
        "Savers get four percent on a one-year deposit.",
        "The central bank left its key rate unchanged.",
        "Investors bought government bonds.",
    ),
    "travel": (
        "Our hotel was five minutes from the beach and the ferry left every hour.",
        "Take the night train and leave your luggage at the station.",
        "You need a visa and a passport that is valid for six months.",
        "The guide showed us the old town and a hidden market.",
        "We booked a cheap flight with one stop.",
    ),
    "music": (
        "The orchestra played two encores after the symphony.",
        "Her new album has twelve songs and a duet.",
        "The guitarist tuned his strings before the concert.",
        "The choir sang in four voices.",
        "The band cancelled its tour because the drummer was ill.",
    ),
    "gardening": (
        "Plant the bulbs in autumn, ten centimetres deep.",
        "Water the tomatoes early in the morning and cut the side shoots.",
        "Prune the roses before the first frost.",
        "Compost makes the soil richer.",
        "Cover the seedlings against slugs.",
    ),
}


def topics(random: Random) -> Iterator[Question]:
    for topic, texts in TOPICS.items():
        for text in texts:
            for _ in range(2):
                others = random.sample(
                    [other for other in TOPICS if other != topic], random.choice((3, 5))
                )
                shown = random.sample([topic, *others], len(others) + 1)
                shape = random.choice(
                    (
                        "What is this text about: {1}?\n{0}",
                        "Text: {0}\nTopic ({1}):",
                        "Classify the topic as {1}: {0}",
                    )
                )
                yield Question(
                    kind="topics",
                    prompt=shape.format(text, ", ".join(shown[:-1]) + f" or {shown[-1]}"),
                    accepted=(topic,),
                    rivals=tuple(others),
                    level=1,
                )


STORIES = (
    (
        "The council wants to plant a thousand trees along the main roads. They will give shade "
        "in summer and clean the air. The first ones go into the ground next March.",
        "A thousand new trees for the city",
        ("Roads closed in March", "A hot summer ahead", "Council raises taxes"),
    ),
    (
        "A fox has moved into the school yard. Pupils watch it from the windows every morning. "
        "The headmaster asks everybody not to feed it.",
        "A fox at school",
        ("New windows for the school", "Headmaster retires", "Feeding birds in winter"),
    ),
    (
        "Bakers in the valley sell their bread from old phone boxes. Customers take a loaf and "
        "leave the money in a tin. Nobody has cheated yet.",
        "Bread from the phone box",
        ("Thieves in the valley", "The end of the telephone", "A school for bakers"),
    ),
    (
        "Last year more people than ever learned to swim as adults. Swimming pools now offer "
        "evening courses, and all of them are full until June.",
        "Adults learn to swim",
        ("Pools close in June", "Children at the beach", "A new diving record"),
    ),
    (
        "The ferry to the island has been out of service since Monday. A rope was caught in its "
        "propeller. Divers try to free it, and food comes by helicopter.",
        "Island ferry out of service",
        ("Divers find a treasure", "Helicopter crash avoided", "A new restaurant on the island"),
    ),
    (
        "A pensioner found a painting behind her wardrobe. An expert says it was made four "
        "hundred years ago. She wants to give it to the town museum.",
        "Old painting found behind a wardrobe",
        ("Museum robbed at night", "Furniture becomes cheaper", "Pensioner wins the lottery"),
    ),
    (
        "From autumn on, the university will let students borrow laptops like books. Two "
        "hundred machines wait in the library, each for four weeks at a time.",
        "Laptops to borrow at the university",
        ("Library closes in autumn", "Students write a book", "University raises its fees"),
    ),
    (
        "Beekeepers lost a third of their hives in the wet spring. The price of honey will "
        "rise, they say, because the bees could not fly out.",
        "Wet spring harms the bees",
        ("Honey is healthy", "Dry summer expected", "Wasps invade gardens"),
    ),
    (
        "The old cinema on King Street opens again after twelve years. Volunteers repaired the "
        "seats and painted the walls. The first film is a comedy from 1959.",
        "Old cinema opens again",
        ("King Street gets a new roof", "A comedy wins a prize", "Volunteers needed at school"),
    ),
    (
        "A boy of nine found his way home after his bus took the wrong road. He remembered the "
        "church tower and walked two hours. His parents had called the police.",
        "Boy walks home after bus mistake",
        ("Church tower repaired", "Police buy new buses", "Parents protest at school"),
    ),
    (
        "The zoo in the north has two young snow leopards. They were born in May and still hide "
        "in their cave. Visitors can see them on a screen.",
        "Young snow leopards at the zoo",
        ("Zoo closes its caves", "A new cinema screen", "Visitors lost in the snow"),
    ),
    (
        "Because nobody wanted to run the village shop, the neighbours bought it together. Each "
        "of them works there two hours a week.",
        "Neighbours run their village shop",
        ("Village shop burns down", "Work weeks get longer", "A supermarket moves in"),
    ),
)


def titles(random: Random) -> Iterator[Question]:
    for text, right, wrong in STORIES:
        for count in (1, 2, 3, 3):
            shown = random.sample([right, *random.sample(wrong, count)], count + 1)
            listed = "; ".join(shown)
            shape = random.choice(
                (
                    "Which title fits this text: {1}?\n\n{0}",
                    "{0}\n\nChoose the best title: {1}.",
                    "Text: {0}\nWhich of these is the best headline: {1}?",
                )
            )
            yield Question(
                kind="titles",
                prompt=shape.format(text, listed),
                accepted=(right,),
                rivals=wrong,
                level=count,
            )


def text_truths(random: Random) -> Iterator[Question]:
    """Whether a made-up message says so."""
    for _ in range(ROWS):
        mail = Mail(random)
        right = random.random() < 0.5
        town, item = (
            random.choice([t for t in TOWNS if t != mail.town]),
            random.choice([i for i in ITEMS if i != mail.item]),
        )
        firm = random.choice([f for f in FIRMS if f != mail.firm])
        order = mail.order[:-1] + str((int(mail.order[-1]) + 3) % 10)
        claim = random.choice(
            (
                f"Is {mail.town if right else town} mentioned in the text?",
                f"Is the text about a {mail.item if right else item}?",
                f"Is {mail.firm if right else firm} mentioned in the text?",
                f"Is the order or invoice number {mail.order if right else order}?",
            )
        )
        yield Question(
            kind="text_truths",
            prompt=f"{mail.text}\n\n{claim} Answer yes or no.",
            accepted=("yes" if right else "no",),
            rule="yes_no",
            level=2,
        )


def log_lines(random: Random) -> Iterator[Question]:
    services = ["billing", "search", "login", "images", "mailer", "cache"]
    for _ in range(ROWS):
        lines = []
        for _line in range(random.randint(2, 4)):
            lines.append(
                (
                    random.choice(services),
                    random.choice(("INFO", "WARNING", "ERROR")),
                    random.choice((200, 201, 404, 429, 500, 503)),
                    random.randint(3, 980),
                )
            )
        if len({each[0] for each in lines}) < len(lines):
            continue
        text = "\n".join(
            f"2025-03-{random.randint(10, 28)} {level} service={name} status={status} took={took}ms"
            for name, level, status, took in lines
        )
        name, level, status, took = random.choice(lines)
        slowest = max(lines, key=lambda each: each[3])
        ask, answer, rivals = random.choice(
            (
                (
                    f"What is the status of the service {name}?",
                    str(status),
                    tuple(str(e[2]) for e in lines if e[2] != status),
                ),
                (
                    f"How many milliseconds did {name} take?",
                    str(took),
                    tuple(str(e[3]) for e in lines if e[3] != took),
                ),
                (
                    f"Which level was logged for {name}?",
                    level,
                    tuple(sorted({e[1] for e in lines} - {level})),
                ),
                (
                    "Which service was the slowest?",
                    slowest[0],
                    tuple(e[0] for e in lines if e != slowest),
                ),
            )
        )
        yield Question(
            kind="log_lines", prompt=f"{text}\n\n{ask}", accepted=(answer,), rivals=rivals, level=2
        )


KINDS: dict[str, tuple[Kind, ...]] = {
    "extraction": (
        e_mails,
        phone_numbers,
        order_numbers,
        amounts,
        goods,
        firms,
        towns,
        dates_in_text,
        names_in_text,
        as_json,
    ),
    "reading": (
        json_fields,
        tables,
        table_extremes,
        table_sums,
        invitations,
        timetables,
        opening_hours,
        text_truths,
        log_lines,
    ),
    "summarising": (topics, titles),
}
