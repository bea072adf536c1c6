"""Kinds of question that ask for words or phrases in another language."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from edgewise.calibrate.rows import Question
from edgewise_bench.questions.kinds.recall import Kind, read_pairs

ITALIAN = """
dog=cane; cat=gatto/gatta; house=casa; water=acqua; red=rosso/rossa; book=libro;
hello=ciao/salve/buongiorno; thank you=grazie; friend=amico/amica; bread=pane; milk=latte;
night=notte; sun=sole; white=bianco/bianca; school=scuola; green=verde; window=finestra;
tomorrow=domani; spoon=cucchiaio; cheese=formaggio; street=strada/via; table=tavolo/tavola;
woman=donna; man=uomo; child=bambino/bambina/figlio; apple=mela; key=chiave; train=treno;
beautiful=bello/bella; today=oggi; moon=luna; chair=sedia; mountain=montagna; sea=mare;
bird=uccello; rain=pioggia
"""
PORTUGUESE = """
dog=cão/cachorro; cat=gato/gata; house=casa; water=água; red=vermelho/vermelha; book=livro;
hello=olá/oi; thank you=obrigado/obrigada; friend=amigo/amiga; bread=pão; milk=leite;
night=noite; sun=sol; white=branco/branca; school= escola; green=verde; window=janela;
tomorrow=amanhã; spoon=colher; cheese=queijo; street=rua; table=mesa; woman= mulher; man=homem;
child=criança/filho; apple=maçã; key=chave; train=comboio/trem;
beautiful=bonito/bonita/belo/bela/ lindo/linda; today=hoje; moon=lua; chair=cadeira;
mountain=montanha; sea=mar; bird=pássaro/ave; rain=chuva
"""
DUTCH = """
dog=hond; cat=kat/poes; house=huis; water=water; red=rood; book=boek; hello=hallo/hoi/dag; thank
you=dank je/dank u/ bedankt/dankjewel; friend=vriend/vriendin; bread=brood; milk=melk;
night=nacht; sun=zon; white=wit; school=school; green=groen; window=raam/venster;
tomorrow=morgen; spoon=lepel; cheese=kaas; street=straat; table=tafel; woman=vrouw; man=man;
child=kind; apple=appel; key=sleutel; train=trein; beautiful=mooi/prachtig; today=vandaag;
moon=maan; chair= stoel; mountain=berg; sea=zee; bird=vogel; rain=regen
"""
SWEDISH = """
dog=hund; cat=katt; house=hus; water=vatten; red=röd; book=bok; hello=hej/hallå; thank you=tack;
friend=vän; bread= bröd; milk=mjölk; night=natt; sun=sol; white=vit; school=skola; green=grön;
window=fönster; tomorrow=imorgon/i morgon; spoon=sked; cheese=ost; street=gata; table=bord;
woman=kvinna; man=man; child=barn; apple=äpple; key=nyckel; train=tåg;
beautiful=vacker/vackert/skön; today=idag/i dag; moon=måne; chair=stol; mountain=berg/fjäll;
sea=hav; bird=fågel; rain=regn
"""
MORE_SPANISH = """
cheese=queso; street=calle; table=mesa; woman=mujer; man=hombre; child=niño/niña/hijo;
apple=manzana; key=llave; train=tren; beautiful=hermoso/hermosa/bonito/bonita/bello/bella;
today=hoy; moon=luna; chair=silla; mountain=montaña; sea=mar; bird=pájaro/ave; rain=lluvia;
kitchen=cocina; heart=corazón; winter=invierno; summer=verano; doctor=médico/ doctor;
hospital=hospital; money=dinero; shoe=zapato; egg=huevo; rice=arroz; church=iglesia;
bridge=puente; yellow= amarillo/amarilla
"""
MORE_FRENCH = """
cheese=fromage; street=rue; table=table; woman=femme; man=homme; child=enfant; apple=pomme;
key=clé/clef; train=train; beautiful=beau/belle; today=aujourd'hui/aujourd hui; moon=lune;
chair=chaise; mountain=montagne; sea=mer; bird=oiseau; rain=pluie; kitchen=cuisine;
heart=cœur/coeur; winter=hiver; summer=été; doctor=médecin/docteur; hospital=hôpital;
money=argent; shoe=chaussure; egg=œuf/oeuf; rice=riz; church=église; bridge=pont; yellow=jaune
"""
MORE_GERMAN = """
cheese=Käse/Kaese; street=Straße/Strasse; table=Tisch; woman=Frau; man=Mann; child=Kind;
apple=Apfel; key=Schlüssel/ Schluessel; train=Zug; beautiful=schön/schoen; today=heute;
moon=Mond; chair=Stuhl; mountain=Berg; sea=Meer/See; bird= Vogel; rain=Regen;
kitchen=Küche/Kueche; heart=Herz; winter=Winter; summer=Sommer; doctor=Arzt/Ärztin; hospital=
Krankenhaus/Spital; money=Geld; shoe=Schuh; egg=Ei; rice=Reis; church=Kirche;
bridge=Brücke/Bruecke; yellow=gelb
"""
INTO = (
    'How do you say "{}" in {}?',
    'Translate "{}" into {}.',
    "What is the {1} word for {0}?",
    "{0} in {1}?",
)
OUT_OF = (
    'What does the {1} word "{0}" mean in English?',
    'Translate from {1} into English: "{0}"',
    '{1} "{0}" in English?',
)


def _into(kind: str, *tables: tuple[str, str]) -> Kind:
    def ask(random: Random) -> Iterator[Question]:
        for language, table in tables:
            for word, answers in read_pairs(table):
                phrasings = random.sample(INTO, 2 if len(tables) == 1 else 1)
                for phrasing in phrasings:
                    yield Question(
                        kind=kind, prompt=phrasing.format(word, language), accepted=answers
                    )

    return ask


into_italian = _into("into_italian", ("Italian", ITALIAN))
into_portuguese = _into("into_portuguese", ("Portuguese", PORTUGUESE))
into_dutch_swedish = _into("into_dutch_swedish", ("Dutch", DUTCH), ("Swedish", SWEDISH))
into_neighbours = _into(
    "more_words", ("Spanish", MORE_SPANISH), ("French", MORE_FRENCH), ("German", MORE_GERMAN)
)


def out_of(random: Random) -> Iterator[Question]:
    tables = (
        ("Spanish", MORE_SPANISH),
        ("French", MORE_FRENCH),
        ("German", MORE_GERMAN),
        ("Italian", ITALIAN),
        ("Portuguese", PORTUGUESE),
        ("Dutch", DUTCH),
        ("Swedish", SWEDISH),
    )
    also = {
        "child": ("kid", "boy", "girl", "son"),
        "street": ("road",),
        "woman": ("wife", "lady"),
        "man": ("husband",),
        "beautiful": ("pretty", "lovely", "nice", "handsome"),
        "sea": ("ocean", "lake"),
        "hello": ("hi", "bye"),
        "doctor": ("physician",),
        "thank you": ("thanks",),
        "table": ("board",),
        "rain": ("shower",),
        "house": ("home",),
        "money": ("silver",),
        "mountain": ("hill",),
    }
    for language, table in tables:
        for word, answers in random.sample(read_pairs(table), 20):
            if answers[0].lower() == word:
                continue
            prompt = random.choice(OUT_OF).format(answers[0], language)
            yield Question(
                kind="out_of_languages", prompt=prompt, accepted=(word, *also.get(word, ()))
            )


PHRASES = {
    "Spanish": """
        Good morning=buenos días; Good night=buenas noches; How are you?=cómo estás/cómo
        está/qué tal; Where is the station?=dónde está la estación/dónde queda la estación; I do
        not understand=no entiendo/no comprendo; My name is Anna=me llamo Anna/mi nombre es
        Anna; Please=por favor; See you tomorrow=hasta mañana/nos vemos mañana; How much does it
        cost?=cuánto cuesta/ cuánto vale; I love you=te amo/te quiero; Happy birthday=feliz
        cumpleaños; Excuse me=perdón/disculpe/perdone/con permiso/ disculpa; I am hungry=tengo
        hambre; What time is it?=qué hora es; Good luck=buena suerte
        """,
    "French": """
        Good morning=bonjour; Good night=bonne nuit; How are you?=comment allez-vous/comment ça
        va/comment vas-tu/ça va; Where is the station?=où est la gare/où se trouve la gare; I do
        not understand=je ne comprends pas; My name is Anna=je m'appelle Anna/mon nom est Anna;
        Please=s'il vous plaît/s'il te plaît; See you tomorrow=à demain; How much does it
        cost?=combien ça coûte/ combien coûte/combien est-ce; I love you=je t'aime; Happy
        birthday=joyeux anniversaire/bon anniversaire; Excuse me=excusez-moi/pardon/excuse-moi;
        I am hungry=j'ai faim; What time is it?=quelle heure est-il; Good luck=bonne chance
        """,
    "German": """
        Good morning=guten Morgen; Good night=gute Nacht; How are you?=wie geht es/wie geht's;
        Where is the station?=wo ist der Bahnhof/wo ist die Station; I do not understand=ich
        verstehe nicht/ich verstehe das nicht; My name is Anna=ich heiße Anna/ich heisse
        Anna/mein Name ist Anna; Please=bitte; See you tomorrow=bis morgen; How much does it
        cost?=wie viel kostet/was kostet/ wieviel kostet; I love you=ich liebe dich; Happy
        birthday=alles Gute zum Geburtstag/herzlichen Glückwunsch; Excuse
        me=entschuldigung/entschuldigen Sie/verzeihung; I am hungry=ich habe Hunger/ich bin
        hungrig; What time is it?=wie spät ist es/wie viel Uhr; Good luck=viel Glück
        """,
    "Italian": """
        Good morning=buongiorno/buon giorno; Good night=buonanotte/buona notte; How are
        you?=come stai/come sta/come va; Where is the station?=dov'è la stazione/dove si trova
        la stazione; I do not understand=non capisco/non ho capito; My name is Anna=mi chiamo
        Anna/il mio nome è Anna; Please=per favore/per piacere/prego; See you tomorrow=a
        domani/ci vediamo domani; How much does it cost?=quanto costa; I love you=ti amo/ti
        voglio bene; Happy birthday=buon compleanno; Excuse me=scusi/scusami/mi scusi/scusa; I
        am hungry=ho fame; What time is it?=che ora è/che ore sono; Good luck=buona fortuna/in
        bocca al lupo
        """,
}


def phrases(random: Random) -> Iterator[Question]:
    shapes = ('Translate "{}" into {}.', 'How do you say "{}" in {}?', 'What is "{}" in {}?')
    for language, table in PHRASES.items():
        for phrase, answers in read_pairs(table):
            for shape in random.sample(shapes, 2):
                yield Question(
                    kind="phrases", prompt=shape.format(phrase, language), accepted=answers
                )


COUNTING = {
    "Spanish": "uno dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce "
    "quince",
    "French": "un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze",
    "German": "eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn "
    "fünfzehn",
    "Italian": "uno due tre quattro cinque sei sette otto nove dieci undici dodici tredici "
    "quattordici quindici",
}


def foreign_numbers(random: Random) -> Iterator[Question]:
    for language, words in COUNTING.items():
        for number, word in enumerate(words.split(), start=1):
            if number > 2:
                prompt = random.choice(
                    ("How do you write the number {} in {}?", "What is the number {} called in {}?")
                )
                accepted = (word, word.replace("ü", "ue").replace("ö", "oe"))
                yield Question(
                    kind="foreign_numbers",
                    prompt=prompt.format(number, language),
                    accepted=accepted,
                )
                if number < 11:
                    prompt = f'Which number is the {language} word "{word}"?'
                    yield Question(
                        kind="foreign_numbers",
                        prompt=prompt,
                        accepted=(str(number),),
                        rule="number",
                    )


KINDS: dict[str, tuple[Kind, ...]] = {
    "translation": (
        into_italian,
        into_portuguese,
        into_dutch_swedish,
        into_neighbours,
        out_of,
        phrases,
        foreign_numbers,
    ),
}
