"""Kinds of question that sort a text into one of a few classes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random

from edgewise.calibrate.rows import Question
from edgewise_bench.questions.kinds.recall import Kind


def _sorting(
    kind: str,
    classes: Mapping[str, str],
    phrasings: tuple[str, ...],
    aliases: Mapping[str, tuple[str, ...]] | None = None,
) -> Kind:
    """Texts by class, separated by bars; each is asked with two phrasings."""

    def ask(random: Random) -> Iterator[Question]:
        names = list(classes)
        for name, texts in classes.items():
            right = (name, *(aliases or {}).get(name, ()))
            wrong = tuple(
                form
                for other in names
                if other != name
                for form in (other, *(aliases or {}).get(other, ()))
            )
            for text in (" ".join(each.split()) for each in texts.split("|")):
                for phrasing in random.sample(phrasings, 2):
                    shown = random.sample(names, len(names))
                    listed = ", ".join(shown[:-1]) + f" or {shown[-1]}"
                    prompt = phrasing.format(text=text, classes=listed)
                    yield Question(kind=kind, prompt=prompt, accepted=right, rivals=wrong)

    return ask


_SHAPES = (
    'Is this {classes}? "{text}"',
    "Text: {text}\nLabel ({classes}):",
    "Classify the following text as {classes}: {text}",
    "{text}\n\nWhich label fits: {classes}? Answer with the label only.",
)

sentiments = _sorting(
    "sentiments",
    {
        "positive": """
            I love this phone, the battery lasts for days. | Best pizza I have ever had! | The
            staff was friendly and our room was spotless. | What a wonderful evening, thank you.
            | Works perfectly, I would buy it again. | Not bad at all, I was pleasantly
            surprised. | I expected little and got a small masterpiece. | Delivery was two days
            early and everything was well packed. | My kids cannot stop playing with it. | I
            have nothing to complain about. | The film made me laugh until I cried. | A quiet
            little hotel with a view I will not forget. | Finally a vacuum cleaner that does
            what it promises.
            """,
        "negative": """
            The food was cold and the waiter was rude. | It broke after two days. | I want my
            money back. | The worst film of the year. | We waited an hour and nobody came. | The
            colour is nothing like the picture. | Great, another update that crashes my
            computer. | I would not recommend it to anyone. | The room smelled of smoke and the
            bed was too short. | Never again. | Five stars for the advertising, one for the
            product. | The book starts well and then bores you for 400 pages. | You could fry an
            egg on this laptop, it gets that hot.
            """,
        "neutral": """
            The package arrived on Tuesday. | The store opens at nine. | The manual has 40
            pages. | I bought the blue one. | It weighs 300 grams. | The meeting lasted one
            hour. | The hotel has 120 rooms. | The film is two hours long. | The shop moved to
            King Street in May. | The jacket is made of cotton. | There are two versions of this
            model. | The train stops in Graz.
            """,
    },
    _SHAPES,
)
emotions = _sorting(
    "emotions",
    {
        "joy": """
            I passed the exam, I could dance! | We are having a baby! | What a beautiful
            surprise, I cannot stop smiling. | My best friend is coming home after three years!
            | The sun is out and I have the day off. | We won, we actually won! | She said yes!
            | This is the happiest day of my life.
            """,
        "anger": """
            He took my parking space again, I could scream. | How dare they charge me twice! | I
            have told you ten times not to touch my things. | This is an outrage. | They
            cancelled without a word, I am furious. | Who broke my window? Somebody will pay for
            this! | Stop lying to me! | I am sick of your excuses.
            """,
        "sadness": """
            My dog died yesterday. | I miss my grandmother so much. | Nobody came to my
            birthday. | She left and the house is so empty. | I cried the whole night. | It
            hurts to see the old school torn down. | He never wrote back, and I lost hope. | I
            feel so alone since they moved away.
            """,
        "fear": """
            There is somebody in the garden, I hardly dare to breathe. | I am terrified of the
            operation. | What if the plane crashes? | My hands shake when I think of tomorrow. |
            I heard steps behind me and ran. | Please do not turn off the light. | The doctor
            wants to see me at once, I am so worried. | The bridge was swaying and I could not
            move.
            """,
        "surprise": """
            Wow, I did not see that coming! | You are here? I thought you were in Peru! | I
            opened the box and there was a live owl. | He is 80? I would never have guessed! |
            What, they are twins? | Out of nowhere she started to speak Chinese. | I cannot
            believe it, snow in June! | Who would have thought that the quiet boy was the
            singer?
            """,
    },
    ("Which emotion is in this text: {classes}? {text}", *_SHAPES[1:]),
    {
        "joy": ("happiness", "happy", "joyful"),
        "anger": ("angry",),
        "sadness": ("sad",),
        "fear": ("afraid", "scared", "fearful"),
        "surprise": ("surprised",),
    },
)
intents = _sorting(
    "intents",
    {
        "refund": """
            I want my money back for the broken lamp. | Please return the 40 euros you charged
            by mistake. | The shoes do not fit, how do I get my payment back? | You billed me
            twice, reimburse me. | I cancelled in time and still have not got my money.
            """,
        "delivery": """
            Where is my parcel? | My order should have been here on Monday. | Can you tell me
            when the sofa arrives? | The tracking page has not changed for a week. | Will it
            come before Christmas?
            """,
        "password": """
            I cannot log in any more. | How do I reset my login? | My account is locked after three
            tries. | I forgot what I typed when I signed up. | The code to sign in never reaches me.
            """,
        "cancellation": """
            I no longer want the subscription. | Please end my contract in June. | Stop my
            membership. | How do I quit the service? | Do not renew my plan next month.
            """,
        "opening hours": """
            Are you open on Sundays? | Until when can I come by tonight? | When do you close on
            Friday? | Is the shop open over Easter? | From what time is somebody there in the
            morning?
            """,
        "complaint": """
            Your driver was rude to my mother. | The music in your shop is far too loud. |
            Nobody answered the phone for an hour, this is a shame. | Your staff laughed at me.
            | The waiting room was filthy.
            """,
        "job": """
            Are you looking for drivers? | I would like to apply as a cook. | Do you offer
            internships? | To whom do I send my CV? | Is the position of the night porter still
            free?
            """,
    },
    (
        "What does the customer want: {classes}? {text}",
        "Customer: {text}\nCategory ({classes}):",
        "Sort this message into one of the categories {classes}. Message: {text}",
        "Which department should get this ({classes})? {text}",
    ),
    {"refund": ("refunds",), "cancellation": ("cancel", "cancellations"), "job": ("jobs",)},
)
urgencies = _sorting(
    "urgencies",
    {
        "urgent": """
            The server is down and no customer can pay. | There is water running through the
            ceiling! | The patient has chest pain. | We need the contract signed within the hour
            or we lose the deal. | The fire alarm is ringing in building two. | Our website
            shows other people's data. | The lift is stuck with people in it. | My card was
            stolen a minute ago, block it now. | The freezer with the vaccines has failed. | The
            gas smell is getting stronger.
            """,
        "not urgent": """
            When you find the time, please look at the new logo. | No rush, but could we talk
            about the summer party? | I would like to order new pens at some point. | The clock
            in the hall is two minutes slow. | Just an idea for next year. | Could you water the
            plants once a week? | We might repaint the kitchen one day. | Here are the holiday
            photos. | Let me know some time whether you liked the book. | A spelling mistake on
            page 40 can be fixed in the next edition.
            """,
    },
    ("Is this message {classes}? {text}", *_SHAPES[1:]),
    {"not urgent": ("non urgent", "isn't urgent")},
)
spam = _sorting(
    "spam",
    {
        "spam": """
            CONGRATULATIONS! You won a free phone, click here now! | Make 5000 dollars a week
            from home, no skills needed. | Your account is suspended, confirm your password at
            this link. | Cheap watches, 90 % off, only today! | Dear friend, I am a prince and
            need your bank account. | Lose ten kilos in three days with this pill. | You have
            been selected for a secret prize, reply with your card number. | Hot singles near
            you are waiting. | Earn money while you sleep, guaranteed. | Final notice: claim
            your inheritance of 4 million. | FREE loans without any check, act now!!! | Verify
            your parcel fee of 1.99 here: bit-parcel.example
            """,
        "not spam": """
            Hi Tom, are we still on for lunch tomorrow? | The minutes of Monday's meeting are
            attached. | Your dentist appointment is on 4 May at 9:30. | Mum, I forgot my keys,
            when are you home? | Thanks for the feedback, I changed the second slide. | Can you
            send me the recipe from last night? | The choir meets at seven instead of six this
            week. | Your library books are due on Friday. | Here is the invoice for March as
            agreed. | Happy birthday, dear Anna! | The teacher asks all parents to sign the
            form. | I am running late, start without me.
            """,
    },
    ("Is this e-mail {classes}? {text}", *_SHAPES[1:]),
    {"not spam": ("ham", "isn't spam", "non spam")},
)
languages = _sorting(
    "language_ids",
    {
        "Spanish": "¿Dónde está la estación? | Mañana vamos a la playa. | El perro duerme en la "
        "cocina. | Me gusta mucho "
        "este libro. | Hace frío esta noche. | No tengo tiempo hoy.",
        "French": "Où est la gare ? | Nous allons à la plage demain. | Le chien dort dans la "
        "cuisine. | J'aime beaucoup ce "
        "livre. | Il fait froid ce soir. | Je n'ai pas le temps.",
        "German": "Wo ist der Bahnhof? | Morgen fahren wir an den Strand. | Der Hund schläft in "
        "der Küche. | Mir gefällt "
        "dieses Buch sehr. | Heute Abend ist es kalt. | Ich habe keine Zeit.",
        "Italian": "Dov'è la stazione? | Domani andiamo in spiaggia. | Il cane dorme in cucina. "
        "| Questo libro mi piace "
        "molto. | Stasera fa freddo. | Oggi non ho tempo.",
        "Portuguese": "Onde fica a estação? | Amanhã vamos à praia. | O cachorro dorme na "
        "cozinha. | Gosto muito deste "
        "livro. | Está frio esta noite. | Não tenho tempo hoje.",
        "Dutch": "Waar is het station? | Morgen gaan we naar het strand. | De hond slaapt in de "
        "keuken. | Ik vind dit boek "
        "erg leuk. | Het is koud vanavond. | Ik heb geen tijd.",
        "Polish": "Gdzie jest dworzec? | Jutro jedziemy na plażę. | Pies śpi w kuchni. | Bardzo "
        "lubię tę książkę. | Dziś "
        "wieczorem jest zimno. | Nie mam czasu.",
        "Swedish": "Var ligger stationen? | I morgon åker vi till stranden. | Hunden sover i "
        "köket. | Jag tycker mycket om "
        "den här boken. | Det är kallt i kväll. | Jag har inte tid.",
    },
    (
        "In which language is this: {classes}? {text}",
        "Which language is this ({classes})? {text}",
        "{text}\n\nLanguage ({classes}):",
    ),
)
parts_of_speech = _sorting(
    "parts_of_speech",
    {
        "noun": "table | happiness | teacher | river | idea | courage | kitchen | freedom | "
        "bottle | anger",
        "verb": "sing | believe | arrive | destroy | become | write | forget | teach | swim | "
        "choose",
        "adjective": "beautiful | angry | tiny | wooden | brave | expensive | lazy | ancient | "
        "curious | bitter",
        "adverb": "quickly | often | silently | never | carefully | badly | almost | soon | "
        "happily | rarely",
    },
    (
        'Is the word "{text}" a {classes}?',
        'Which part of speech is "{text}": {classes}?',
        "Word: {text}\nPart of speech ({classes}):",
    ),
)
opinions = _sorting(
    "opinions",
    {
        "fact": """
            Water boils at 100 degrees at sea level. | The Eiffel Tower stands in Paris. | A
            week has seven days. | Gold is a metal. | The film lasts 110 minutes. | Brazil is
            larger than Peru. | The library has 40,000 books. | She was born in 1984. | Whales
            are mammals. | The bill was 32 euros. | Mount Everest is 8,849 metres high. | The
            match ended 2 to 1.
            """,
        "opinion": """
            Blue is the most beautiful colour. | The film is far too long. | Cats are better
            than dogs. | Mathematics is boring. | Everybody should learn the piano. | This is
            the best café in town. | Winter is the worst season. | The new stadium is ugly. |
            Tea tastes better than coffee. | He is the greatest player of all time. | Cities
            should ban cars. | The soup needs more salt.
            """,
    },
    ("Is this statement a {classes}? {text}", *_SHAPES[1:3]),
)
sentence_types = _sorting(
    "sentence_types",
    {
        "question": "Where do you live? | Can you help me? | What time is it? | Is it raining? "
        "| Why did she leave? | How far is "
        "it to Rome? | Shall we go?",
        "command": "Close the window. | Stop talking. | Bring me the salt, please. | Turn left "
        "at the church. | Wait here. | Read "
        "page ten aloud. | Do not touch the stove.",
        "statement": "The train is late. | She lives in Rome. | It rained all night. | I like "
        "your hat. | Lions eat meat. | We "
        "bought a lamp. | The shop is closed.",
    },
    ("Is this sentence a {classes}? {text}", "Sentence: {text}\nType ({classes}):", _SHAPES[3]),
)
expenses = _sorting(
    "expenses",
    {
        "groceries": "milk, bread and eggs | a bag of potatoes and some apples | rice, tomatoes "
        "and cheese | a kilo of flour | "
        "yoghurt and bananas",
        "transport": "a monthly bus ticket | petrol for the car | a taxi to the airport | new "
        "tyres for the bicycle | a train ticket "
        "to Graz",
        "housing": "the rent for May | repair of the heating | the electricity bill of the flat "
        "| new curtains for the bedroom | the "
        "fee for the caretaker of the building",
        "entertainment": "two cinema tickets | a concert in the park | a video game | a "
        "subscription for films | a day at the "
        "amusement park",
        "health": "tablets from the pharmacy | a visit to the dentist | new glasses from the "
        "optician | the bill of the doctor | a "
        "bandage and plasters",
        "clothing": "a winter coat | three pairs of socks | running shoes and a T-shirt | a "
        "belt and a shirt | a wool hat",
    },
    (
        "Which category is this expense ({classes})? {text}",
        "Expense: {text}\nCategory ({classes}):",
        "Sort into {classes}: {text}",
    ),
)
formalities = _sorting(
    "formalities",
    {
        "formal": """
            I would be grateful if you could send me the documents. | We regret to inform you
            that the position has been filled. | Please find attached the requested report. | I
            look forward to hearing from you. | Should you require further information, do not
            hesitate to contact us. | Dear Sir or Madam, I am writing to enquire about the
            course. | It is with great pleasure that we invite you to the opening. | Kindly
            confirm receipt of this letter. | The committee shall convene on Monday.
            """,
        "informal": """
            Hey, wanna grab a bite? | Gonna be late, sorry! | That party was awesome, dude. |
            Can't make it tonight, catch you later. | What's up? | No worries, mate. | LOL,
            that's so funny. | Yeah, sounds good. | Thanks a bunch, you rock!
            """,
    },
    ("Is this text {classes}? {text}", *_SHAPES[1:3]),
)

KINDS: dict[str, tuple[Kind, ...]] = {
    "classification": (
        sentiments,
        emotions,
        intents,
        urgencies,
        spam,
        languages,
        opinions,
        expenses,
        formalities,
    ),
    "words": (parts_of_speech, sentence_types),
}
