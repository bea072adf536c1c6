"""Kinds of question that ask for words or sentences in another form."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

from edgewise.calibrate.rows import Question
from edgewise_bench.questions.kinds.recall import Kind, read_pairs, with_plurals
from edgewise_bench.questions.kinds.skills import PLAIN_SENTENCES

SENTENCES = (
    *PLAIN_SENTENCES,
    "The new office opens next week.",
    "Please send the report by Friday.",
    "Our flight was late again.",
    "The river runs past the old mill.",
    "Nina sold her blue car.",
    "We need more paper for the printer.",
    "The dog sleeps under the kitchen table.",
    "Two trains arrived at the same time.",
    "Her brother works in a small hotel.",
    "The lights went out during dinner.",
    "A cold wind blew from the north.",
    "They planted seven trees in the park.",
    "The shop closes early on Sundays.",
    "My phone fell into the lake.",
    "The teacher read a story to the class.",
    "Fresh bread smells wonderful.",
)


def _forms(kind: str, change: Callable[[str], str], phrasings: tuple[str, ...]) -> Kind:
    """A sentence in another form, letter by letter."""

    def ask(random: Random) -> Iterator[Question]:
        for sentence in SENTENCES:
            for phrasing in random.sample(phrasings, 2):
                yield Question(
                    kind=kind,
                    prompt=phrasing.format(sentence),
                    accepted=(change(sentence),),
                    case_matters=True,
                    level=1,
                )

    return ask


uppercase = _forms(
    "uppercase",
    str.upper,
    (
        "Write this in capital letters: {}",
        "Convert to uppercase: {}",
        "Change this sentence to ALL CAPS: {}",
    ),
)
lowercase = _forms(
    "lowercase",
    str.lower,
    (
        "Write this in lowercase letters only: {}",
        "Convert to lowercase: {}",
        "Remove all capital letters by making them small: {}",
    ),
)
title_case = _forms(
    "title_case",
    lambda text: " ".join(word[0].upper() + word[1:] for word in text.split()),
    (
        "Capitalise the first letter of every word: {}",
        "Start every word with a capital letter: {}",
        "Write this so that each single word begins with a capital: {}",
    ),
)

PAST = """
I walk to school.=I walked to school; She goes to the market.=She went to the market; They eat
lunch.=They ate lunch; He writes a letter.=He wrote a letter; We see a film.=We saw a film; The
dog runs fast.=dog ran fast; I buy bread.=I bought bread; She sings a song.=She sang a song; He
drinks tea.=He drank tea; They build a house.=They built a house; The bird flies away.=bird flew
away; I have a cold.=I had a cold; She is tired.=She was tired; We are happy.=We were happy; He
teaches music.=He taught music; She catches the bus.=She caught the bus; I know the answer.=I
knew the answer; He breaks the cup.=He broke the cup; They swim in the lake.=They swam in the
lake; She drives to work.=She drove to work; The shop closes at six.=shop closed at six; He
feels ill.=He felt ill; I lose my keys.=I lost my keys; We win the game.=We won the game; She
throws the ball.=She threw the ball; They sell old books.=They sold old books; He wears a
hat.=He wore a hat; The sun rises.=sun rose; I forget his name.=I forgot his name; She chooses
the red one.=She chose the red one; He cuts the grass.=He cut the grass; The child hides.=child
hid; We leave early.=We left early; She brings flowers.=She brought flowers; He speaks
softly.=He spoke softly; They begin late.=They began late; It costs ten euros.=It cost ten
euros; The phone rings.=phone rang; She lies on the sofa.=She lay on the sofa; He seeks help.=He
sought help
"""


def past_sentences(random: Random) -> Iterator[Question]:
    shapes = (
        "Put this sentence in the past tense: {}",
        "Rewrite in the simple past: {}",
        "Change to the past tense: {}",
    )
    for sentence, answers in read_pairs(PAST):
        for shape in random.sample(shapes, 2):
            yield Question(kind="past_sentences", prompt=shape.format(sentence), accepted=answers)


NEGATIONS = """
I like coffee.=I do not like coffee/I don't like coffee; She works here.=She does not work
here/She doesn't work here; They are ready.=They are not ready/They aren't ready; He can
swim.=He cannot swim/He can not swim/He can't swim; We were late.=We were not late/We weren't
late; It is raining.=It is not raining/It isn't raining/It's not raining; You should go.=You
should not go/You shouldn't go; I have a car.=I do not have a car/I don't have a car/I have no
car/I haven't a car; He saw the film.=He did not see the film/He didn't see the film; The shop
is open.=shop is not open/shop isn't open; She will come.=She will not come/She won't come; They
speak French.=They do not speak French/They don't speak French; I was there.=I was not there/I
wasn't there; He knows the way.=He does not know the way/He doesn't know the way; We bought
milk.=We did not buy milk/We didn't buy milk; The dog bites.=dog does not bite/dog doesn't bite;
She has finished.=She has not finished/She hasn't finished; They must wait.=They must not
wait/They mustn't wait/They do not have to wait; I am hungry.=I am not hungry/I'm not hungry; He
wrote the letter.=He did not write the letter/He didn't write the letter; You are right.=You are
not right/You aren't right/You're not right; The bus stops here.=bus does not stop here/bus
doesn't stop here; We need help.=We do not need help/We don't need help/We need no help; She ate
the cake.=She did not eat the cake/She didn't eat the cake; It works.=It does not work/It
doesn't work; He could hear us.=He could not hear us/He couldn't hear us; They live in
Rome.=They do not live in Rome/They don't live in Rome; I would buy it.=I would not buy it/I
wouldn't buy it; The water is warm.=water is not warm/water isn't warm; She took the bus.=She
did not take the bus/She didn't take the bus
"""


def negations(random: Random) -> Iterator[Question]:
    shapes = (
        "Make this sentence negative: {}",
        "Rewrite the sentence with 'not': {}",
        "Negate this sentence: {}",
    )
    for sentence, answers in read_pairs(NEGATIONS):
        for shape in shapes:
            yield Question(kind="negations", prompt=shape.format(sentence), accepted=answers)


PASSIVES = """
The cat chased the mouse.=mouse was chased by the cat; Anna wrote the book.=book was written by
Anna; The storm destroyed the barn.=barn was destroyed by the storm; Tom painted the wall.=wall
was painted by Tom; The chef cooks the meal.=meal is cooked by the chef; The police caught the
thief.=thief was caught by the police; Millions watch the show.=show is watched by millions; The
dog bit the postman.=postman was bitten by the dog; The company built the bridge.=bridge was
built by the company; Nina sang the song.=song was sung by Nina; The teacher praised the
pupil.=pupil was praised by the teacher; The wind broke the window.=window was broken by the
wind; Peter sends the letters.=letters are sent by Peter; The bees make the honey.=honey is made
by the bees; The mayor opened the museum.=museum was opened by the mayor; Lucy found the
keys.=keys were found by Lucy; The child ate the cake.=cake was eaten by the child; The team won
the match.=match was won by the team; A mechanic repaired the car.=car was repaired by a
mechanic; The farmer feeds the cows.=cows are fed by the farmer; David stole the
painting.=painting was stolen by David; The fire damaged the roof.=roof was damaged by the fire;
Emma drew the picture.=picture was drawn by Emma; The king wore the crown.=crown was worn by the
king; The nurse helps the patient.=patient is helped by the nurse; The boss chose the
colour.=colour was chosen by the boss; Two men carried the piano.=piano was carried by two men;
The judge read the letter.=letter was read by the judge; The driver saw the sign.=sign was seen
by the driver; The river flooded the fields.=fields were flooded by the river
"""


def passives(random: Random) -> Iterator[Question]:
    for active, (passive,) in read_pairs(PASSIVES):
        shape = random.choice(
            ("Put this sentence into the passive voice: {}", "Rewrite in the passive: {}")
        )
        yield Question(kind="passives", prompt=shape.format(active), accepted=(passive,))
        given = passive if passive[0].isupper() else f"The {passive}"
        shape = random.choice(
            ("Rewrite in the active voice: {}.", "Put this sentence into the active voice: {}.")
        )
        accepted = active.rstrip(".")
        yield Question(kind="passives", prompt=shape.format(given), accepted=(accepted,), level=2)


GRAMMAR = """
She go to school every day.=She goes to school every day; He don't like fish.=He doesn't like
fish/He does not like fish; They was at home.=They were at home; I has two brothers.=I have two
brothers; The childs are playing.=children are playing; She is more taller than me.=She is
taller than; He runned very fast.=He ran very fast; There is many people here.=There are many
people here; I am agree with you.=I agree with you; She can sings well.=She can sing well; We
seen that film.=We saw that film/We have seen that film/We've seen that film; He gived me a
book.=He gave me a book; These apple is sweet.=These apples are sweet/This apple is sweet; I
didn't went there.=I didn't go there/I did not go there; She have a cat.=She has a cat; An
university is near.=A university is near; He is a honest man.=He is an honest man; I look
forward to see you.=I look forward to seeing you; The news are good.=The news is good; Me and
Tom is friends.=Tom and I are friends; He speak English good.=He speaks English well; She
bringed her dog.=She brought her dog; Where you are going?=Where are you going; I have saw it.=I
have seen it/I saw it/I've seen it; Her's book is red.=Her book is red; It depends of the
weather.=It depends on the weather; He is married with a doctor.=He is married to a doctor; She
arrived to London.=She arrived in London; They informations are wrong.=information is wrong; I
want that you come.=I want you to come; He made his homework.=He did his homework/He does his
homework; We discussed about the plan.=We discussed the plan; She is good in tennis.=She is good
at tennis; I live here since 2010.=I have lived here since 2010/I've lived here since 2010/I
have been living here since 2010; He eat an apple yesterday.=He ate an apple yesterday; Who's
car is this?=Whose car is this; Your welcome.=You're welcome/You are welcome; Its raining
outside.=It's raining outside/It is raining outside; I could of done it.=I could have done it/I
could've done it; Their going home.=They're going home/They are going home
"""


def grammar_fixes(random: Random) -> Iterator[Question]:
    shapes = (
        "Correct the grammar: {}",
        "Fix the mistakes in this sentence: {}",
        "Correct this sentence: {}",
        "What is the right way to say this? {}",
    )
    for wrong, answers in read_pairs(GRAMMAR):
        for shape in random.sample(shapes, 2):
            yield Question(kind="grammar_fixes", prompt=shape.format(wrong), accepted=answers)


MISSPELT = """
recieve=receive; seperate=separate; definately=definitely; occured=occurred; untill=until;
begining=beginning; accomodate=accommodate; adress=address; beleive=believe; calender=calendar;
enviroment=environment; goverment=government; happend=happened; immediatly=immediately;
knowlege=knowledge; libary=library; neccessary=necessary; ocasion=occasion; publically=publicly;
refered=referred; suprise=surprise; tommorow=tomorrow; truely=truly; wierd=weird;
writting=writing; acheive=achieve; arguement=argument; comming=coming; diffrent=different;
embarass=embarrass; excelent=excellent; existance=existence; foriegn= foreign; freind=friend;
garantee=guarantee; grammer=grammar; hieght=height; independant=independent;
intresting=interesting; maintainance=maintenance; mispell=misspell; noticable=noticeable;
posession= possession; prefered=preferred; privelege=privilege; realy=really; rythm=rhythm;
sucessful=successful; twelth=twelfth; vaccuum=vacuum; wether=weather/whether; Wensday=Wednesday;
Febuary=February; restaraunt= restaurant; concious=conscious; liason=liaison;
millenium=millennium; questionaire=questionnaire; supercede= supersede;
pronounciation=pronunciation
"""


def spelling_fixes(random: Random) -> Iterator[Question]:
    shapes = (
        'Correct the spelling of "{}".',
        "How is {} spelt correctly?",
        "What is the correct spelling of {}?",
        "This word is misspelt: {}. Write it correctly.",
    )
    for wrong, answers in read_pairs(MISSPELT):
        for shape in random.sample(shapes, 2):
            yield Question(kind="spelling_fixes", prompt=shape.format(wrong), accepted=answers)


CONTRACTIONS = """
I'm tired.=I am tired; He's late.=He is late; They're here.=They are here; We don't know.=We do
not know; She can't come.=She cannot come/She can not come; It isn't far.=It is not far; I've
seen it.=I have seen it; You'll like it.=You will like it; He won't go.=He will not go; We're
ready.=We are ready; I'd love to.=I would love to; She didn't call.=She did not call; They
haven't eaten.=They have not eaten; It's cold.=It is cold; You shouldn't worry.=You should not
worry; He wasn't there.=He was not there; We couldn't sleep.=We could not sleep; Let's go.=Let
us go; That's right.=That is right; Who's there?=Who is there; I wouldn't do that.=I would not
do that; She's my sister.=She is my sister; They weren't at home.=They were not at home; There's
a problem.=There is a problem; What's the time?=What is the time; You've won.=You have won; He
doesn't eat meat.=He does not eat meat; We'll see.=We will see; I hadn't noticed.=I had not
noticed; They'd already left.=They had already left
"""


def contractions(random: Random) -> Iterator[Question]:
    for short, answers in read_pairs(CONTRACTIONS):
        shape = random.choice(
            ("Write this without contractions: {}", "Expand the contractions: {}")
        )
        yield Question(kind="contractions", prompt=shape.format(short), accepted=answers, level=1)
        mark = short[-1]
        shape = random.choice(
            ("Write this with a contraction: {}", "Shorten with an apostrophe: {}")
        )
        long = answers[0].rstrip(".?") + mark
        accepted = (short.rstrip(".?"), *_other_short(short.rstrip(".?"), answers[0]))
        yield Question(kind="contractions", prompt=shape.format(long), accepted=accepted, level=1)


def _other_short(short: str, long: str) -> tuple[str, ...]:
    """ "He is not" may be "he isn't" or "he's not"."""
    found = []
    for full, brief in (
        (" is not", "'s not"),
        (" are not", "'re not"),
        (" will not", "'ll not"),
        (" have not", "'ve not"),
        (" had not", "'d not"),
        (" would not", "'d not"),
        (" has not", "'s not"),
    ):
        if full in long:
            found.append(long.replace(full, brief))
    return tuple(found)


SHORTER = (
    (
        "I am writing to you because I would like to know when the library opens on Saturdays.",
        "library,open|opens|opening|saturday|saturdays|hours",
    ),
    (
        "Due to the very heavy snow that fell during the night, all schools in the district are "
        "closed today.",
        "school|schools,closed|close|snow",
    ),
    (
        "It would be great if you could possibly bring some bread and milk when you come home "
        "tonight.",
        "bread,milk",
    ),
    (
        "The meeting that we had planned for Monday has been moved to Thursday because the "
        "manager is ill.",
        "meeting,thursday|moved|postponed|rescheduled",
    ),
    (
        "We regret to inform you that the concert in the park has been cancelled because of the "
        "storm.",
        "concert,cancelled|canceled|storm",
    ),
    (
        "My neighbour's dog barks every single night, so that nobody in the house can sleep.",
        "dog|barking,night|sleep|bark|barks|barking",
    ),
    (
        "After many years of hard work, Maria finally opened her own small bakery in the city "
        "centre.",
        "maria|bakery,bakery|opened|opens",
    ),
    (
        "The printer on the second floor is out of paper again, and nobody knows where the new "
        "paper is.",
        "printer,paper|out",
    ),
    (
        "Because the bridge is being repaired, drivers have to take a longer way through the "
        "village.",
        "bridge,repair|repaired|repairs|detour|longer|closed|village",
    ),
    (
        "Our company made more money this year than ever before, mostly because of the new phone.",
        "company|profit|profits|money|record,phone|money|profit|profits|record|year",
    ),
    (
        "Doctors say that walking for half an hour every day is good for the heart and for the "
        "mood.",
        "walking|walk,heart|mood|health|daily|good",
    ),
    (
        "Please remember to lock the door and to switch off all the lights before you leave the "
        "office.",
        "lock,lights|light",
    ),
    (
        "The children were so excited about the trip to the zoo that they could not sleep the "
        "night before.",
        "children|kids,zoo|trip|excited|sleep",
    ),
    (
        "Tickets for the new museum can be bought online for eight euros or at the door for ten "
        "euros.",
        "ticket|tickets|museum,online|euros|eight|ten|8|10|door|museum",
    ),
    (
        "Scientists have discovered a new kind of frog that lives high in the mountains of Peru.",
        "frog,peru|new|discovered|mountains",
    ),
    (
        "The police are looking for a man with a red jacket who stole three bicycles near the "
        "station.",
        "police|man|thief,bicycles|bikes|stole|stolen|jacket|theft",
    ),
)


def shortening(random: Random) -> Iterator[Question]:
    shapes = (
        "Shorten this to at most {1} words: {0}",
        "Say this in {1} words or fewer: {0}",
        "Summarise in no more than {1} words: {0}",
        "Write a headline of at most {1} words: {0}",
    )
    for text, needed in SHORTER:
        for shape, most in zip(shapes, random.sample((5, 6, 7, 8, 10, 12), 4), strict=True):
            accepted = (str(most), *needed.split(","))
            prompt = shape.format(text, most)
            yield Question(kind="shortening", prompt=prompt, accepted=accepted, rule="brief")


def replacing(random: Random) -> Iterator[Question]:
    swaps = (
        ("cat", "horse"),
        ("apples", "pears"),
        ("train", "bus"),
        ("sister", "cousin"),
        ("day", "week"),
        ("door", "window"),
        ("market", "harbour"),
        ("boat", "raft"),
        ("soup", "stew"),
        ("keys", "glasses"),
        ("museum", "bakery"),
        ("barn", "castle"),
        ("uncle", "doctor"),
        ("bus", "tram"),
        ("children", "students"),
        ("clock", "engine"),
        ("tulips", "roses"),
        ("honey", "cheese"),
        ("office", "factory"),
        ("report", "invoice"),
        ("flight", "ferry"),
        ("mill", "church"),
        ("car", "scooter"),
        ("paper", "ink"),
        ("dog", "kitten"),
        ("hotel", "hospital"),
        ("wind", "rain"),
        ("trees", "flowers"),
        ("shop", "bank"),
        ("phone", "camera"),
        ("teacher", "nurse"),
        ("bread", "coffee"),
    )
    shapes = (
        'Replace "{1}" with "{2}": {0}',
        'Rewrite this sentence with the word "{2}" instead of "{1}": {0}',
        "In the following sentence, change {1} to {2}. {0}",
    )
    for old, new in swaps:
        for sentence in (each for each in SENTENCES if f" {old}" in each.rstrip(".") + " "):
            words = sentence.rstrip(".").split()
            if old not in words:
                continue
            changed = " ".join(new if word == old else word for word in words)
            for shape in random.sample(shapes, 2):
                prompt = shape.format(sentence, old, new)
                yield Question(kind="replacing", prompt=prompt, accepted=(changed,), level=1)


PLURAL_SENTENCES = """
The child is playing.=children are playing; This book is old.=These books are old; The mouse was
small.=mice were small; A bird sings.=Birds sing; The woman has a car.=women have cars/women
have a car; That house is big.=Those houses are big; The knife is sharp.=knives are sharp; The
baby cries.=babies cry; The city was quiet.=cities were quiet; My foot hurts.=My feet hurt; The
man walks home.=men walk home; The leaf falls.=leaves fall; The bus is late.=buses are
late/busses are late; I am ready.=We are ready; He likes tea.=They like tea; The tooth is
white.=teeth are white; The goose flies.=geese fly; This box is heavy.=These boxes are heavy;
The story was sad.=stories were sad; The dog barks.=dogs bark; She was tired.=They were tired;
The wolf howls.=wolves howl; The potato is hot.=potatoes are hot; The sheep eats grass.=sheep
eat grass; The boy has a ball.=boys have balls/boys have a ball; The person waits.=people
wait/persons wait; The watch is broken.=watches are broken; The thief runs.=thieves run; The
country is rich.=countries are rich; The photo is nice.=photos are nice
"""


def plural_sentences(random: Random) -> Iterator[Question]:
    shapes = (
        "Put this sentence into the plural: {}",
        "Rewrite the sentence in the plural form: {}",
        "Make everything in this sentence plural: {}",
    )
    for sentence, answers in read_pairs(PLURAL_SENTENCES):
        for shape in random.sample(shapes, 2):
            yield Question(kind="plural_sentences", prompt=shape.format(sentence), accepted=answers)


# -- words -----------------------------------------------------------------------------------------

SYNONYMS = """
big=large/huge/great/enormous/giant/vast/massive/gigantic/immense/sizable;
happy=glad/joyful/cheerful/ pleased/content/delighted/joyous/elated/merry;
fast=quick/rapid/swift/speedy/hasty; begin=start/commence/ initiate/launch;
smart=clever/intelligent/bright/brilliant/wise/sharp; angry=mad/furious/irate/cross/enraged/
irritated/annoyed/upset; small=little/tiny/miniature/minute/petite/compact;
rich=wealthy/affluent/prosperous/ well off/opulent;
sad=unhappy/sorrowful/gloomy/miserable/melancholy/depressed/down/blue/mournful/dejected;
easy=simple/effortless/straightforward; hard=difficult/tough/challenging/firm/solid/arduous;
buy=purchase/ acquire/get/obtain; help=assist/aid/support;
end=finish/conclude/stop/terminate/conclusion/close/ending;
pretty=beautiful/attractive/lovely/gorgeous/cute/handsome;
strange=odd/weird/unusual/peculiar/bizarre/curious;
brave=courageous/bold/fearless/valiant/heroic/daring/gallant;
rest=relax/repose/break/remainder/sleep/relaxation; ask=inquire/enquire/question/request/query;
answer=reply/response/respond; choose=select/pick/opt/decide; afraid=
scared/frightened/fearful/terrified; quiet=silent/calm/peaceful/still/hushed/tranquil;
rude=impolite/ discourteous/disrespectful/ill mannered/insolent;
funny=amusing/humorous/comical/hilarious/witty/comic; famous= well
known/renowned/celebrated/popular/noted/prominent/eminent/illustrious;
dangerous=hazardous/risky/perilous/ unsafe/treacherous;
ancient=old/antique/archaic/aged/prehistoric/historic; enough=sufficient/adequate/ample/ plenty;
mistake=error/blunder/slip/fault/oversight; journey=trip/voyage/travel/tour/expedition/trek;
house=home/ dwelling/residence/abode; shop=store/boutique/market/outlet/retail;
tired=exhausted/weary/fatigued/sleepy/drained;
clever=smart/intelligent/bright/ingenious/astute/shrewd/cunning/witty;
allow=permit/let/enable/authorize/authorise; build=construct/erect/assemble/create/make;
keep=retain/hold/preserve/maintain/save/store; shout=yell/scream/cry/ holler/bellow/exclaim;
error=mistake/fault/blunder/bug/inaccuracy; gift=present/donation/offering; lucky=
fortunate/blessed; sure=certain/confident/positive/definite;
wealthy=rich/affluent/prosperous/well off/opulent;
reluctant=unwilling/hesitant/disinclined/averse/resistant; diligent=hardworking/industrious/hard
working/ conscientious/assiduous/dedicated/careful/persistent;
abundant=plentiful/ample/copious/profuse/bountiful/rich;
candid=frank/honest/open/sincere/straightforward/truthful/forthright;
obsolete=outdated/outmoded/old/antiquated/ archaic/out of date/old fashioned;
futile=useless/pointless/vain/fruitless/hopeless/ineffective; meticulous=careful/
thorough/precise/detailed/painstaking/scrupulous/fastidious; ephemeral=fleeting/short
lived/transient/brief/ temporary/passing/transitory/momentary
"""


def synonyms(random: Random) -> Iterator[Question]:
    shapes = (
        'What is a synonym of "{}"?',
        "Give me another word for {}.",
        "Which word means the same as {}?",
        "Name a synonym for {}.",
    )
    for word, answers in read_pairs(SYNONYMS):
        for shape in random.sample(shapes, 2):
            yield Question(kind="synonyms", prompt=shape.format(word), accepted=answers)


RHYMES = """
cat=hat/bat/rat/mat/sat/fat/pat/that/flat/chat/gnat/brat/splat;
day=may/say/way/play/stay/pay/ray/bay/gray/
tray/clay/hay/lay/away/today/okay/sway/stray/pray/spray/bray;
light=night/bright/right/sight/fight/might/white/
kite/tight/bite/flight/height/write/site/knight/slight/quite/ignite/delight/invite;
tree=bee/see/free/sea/knee/ me/key/tea/three/we/be/he/she/flee/glee/fee/agree/spree;
house=mouse/blouse/spouse/grouse/louse; rain=train/pain/
brain/chain/gain/main/plane/lane/cane/again/drain/plain/stain/vein/grain/Spain/reign;
ball=tall/fall/call/wall/ hall/small/mall/all/stall/doll/crawl/haul/shawl/squall;
moon=soon/spoon/noon/June/tune/balloon/dune/loon/cocoon/ croon/swoon;
king=ring/sing/wing/thing/spring/bring/string/swing/sting/cling/fling/ding/ping/sling/zing;
book=look/ cook/hook/took/brook/nook/shook/crook; fish=dish/wish/swish;
star=car/far/bar/jar/tar/guitar/are/scar/ajar/afar;
cake=lake/make/take/bake/snake/rake/wake/shake/brake/break/steak/fake/awake/mistake/flake/sake;
dog=fog/log/frog/ hog/jog/bog/blog/clog/cog/smog;
blue=two/shoe/new/true/you/do/flew/glue/zoo/who/through/too/few/view/clue/crew/
knew/grew/stew/dew/hue/chew; hand=sand/land/band/stand/grand/brand/and/understand/bland/strand;
bear=hair/chair/
care/fair/pear/air/wear/there/share/stair/where/dare/scare/bare/rare/square/swear/tear/hare/their;
snow=go/show/ flow/blow/grow/low/slow/no/so/know/toe/row/glow/throw/crow/bow/ago/though/below;
clock=rock/sock/lock/block/ knock/dock/shock/stock/tock/flock/mock;
red=bed/head/bread/said/led/fed/dead/shed/thread/spread/sled/wed/instead;
love=dove/glove/above/of/shove; heart=art/part/start/smart/cart/chart/dart/apart;
money=honey/funny/bunny/sunny/ runny;
fire=wire/tire/higher/choir/desire/liar/buyer/hire/inspire/admire/spire/dire/flyer/expire/acquire/entire;
flower=power/tower/shower/hour/our/sour/hower/cower/devour/glower; mountain=fountain;
nice=ice/rice/mice/price/twice/ dice/slice/spice/advice/device;
door=floor/more/four/store/core/shore/before/pour/roar/war/score/for/or/your/
explore/ignore/sore/snore/bore;
green=queen/seen/mean/bean/clean/screen/machine/teen/keen/scene/between/lean/ routine/serene;
time=rhyme/lime/climb/crime/dime/prime/chime/mime/thyme/slime/sublime; ground=sound/round/found/
pound/bound/around/hound/mound/wound/surround/astound;
stone=phone/bone/alone/cone/zone/throne/grown/known/loan/
own/tone/shown/moan/thrown/blown/flown/drone
"""


_IN_ANY_SENTENCE = frozenset(  # as a rhyme, such a word would be found in any answer
    [
        "that",
        "me",
        "we",
        "be",
        "he",
        "she",
        "are",
        "of",
        "do",
        "you",
        "who",
        "to",
        "and",
        "there",
        "where",
        "their",
        "so",
        "no",
        "for",
        "or",
        "your",
        "own",
        "all",
        "our",
        "may",
        "okay",
        "might",
        "right",
        "say",
        "again",
        "way",
        "know",
        "more",
    ]
)


def rhymes(random: Random) -> Iterator[Question]:
    shapes = (
        'Which word rhymes with "{}"? Give one word.',
        "Name one word that rhymes with {}.",
        "Give me a rhyme for {}.",
    )
    for word, answers in read_pairs(RHYMES):
        told = tuple(answer for answer in answers if answer not in _IN_ANY_SENTENCE)
        for shape in shapes:
            yield Question(kind="rhymes", prompt=shape.format(word), accepted=told)


DEFINITIONS = """
a building where films are shown=cinema/movie theater/theater/theatre/movie theatre; a person
who cannot see=blind; a doctor's order for medicine=prescription; a place where planes
land=airport/airfield/runway/ airstrip; a machine that washes dishes=dishwasher; a person who
eats no meat=vegetarian/vegan; the day before today=yesterday; a house made of snow
blocks=igloo; a large group of trees=forest/woods/wood; water falling from a cliff=waterfall; a
book that explains words=dictionary; a person who travels in space=astronaut/cosmonaut; a place
where books are lent=library; fear of small spaces=claustrophobia; a person who speaks two
languages=bilingual; a child without parents=orphan; a woman whose husband has died=widow; a man
whose wife has died=widower; a list of dishes in a restaurant=menu; money left for a
waiter=tip/gratuity; a period of ten years=decade; a period of a hundred years=century; a person
who lives next door=neighbour/neighbor; a shape with three sides=triangle; a shape with eight
sides=octagon; a shape with five sides=pentagon; the top of a mountain=summit/peak; an animal
that sleeps through winter, in one verb=hibernate/hibernates/hibernation; a story of somebody's
own life=autobiography/ memoir; a story of somebody's life written by another=biography; a
person who hates people=misanthrope; fear of heights=acrophobia; fear of spiders=arachnophobia;
a word that reads the same backwards=palindrome; a government by the few=oligarchy; a person who
collects stamps=philatelist; a sweet-smelling liquid for the skin=perfume/cologne; a room under
a house=basement/cellar; a room right under the roof=attic/loft; a long seat in a park=bench; a
person who predicts the weather=meteorologist/forecaster/weatherman/weather forecaster; a piece
of land with water on all sides=island; a piece of land with water on three sides=peninsula; a
very dry sandy place=desert; a person who studies at a university=student/undergraduate; a
doctor who operates=surgeon; a tool for cutting paper=scissors; a place where bread is made and
sold=bakery; a picture of yourself taken with a phone=selfie; a substance that kills
insects=insecticide/pesticide; a word with the opposite meaning=antonym; a mistake in a printed
text=typo/misprint/ erratum/typographical error; the thing that opens wine bottles=corkscrew; a
person who owns many houses to let= landlord; a formal meeting to get a job=interview/job
interview
"""


def definitions(random: Random) -> Iterator[Question]:
    shapes = (
        "What is the word for {}?",
        "What do you call {}?",
        "Which English word means {}?",
    )
    for meaning, answers in read_pairs(DEFINITIONS):
        for shape in random.sample(shapes, 2):
            yield Question(
                kind="definitions", prompt=shape.format(meaning), accepted=with_plurals(answers)
            )


HOMOPHONES = (
    ("I want to go {} the park.", "to", "too two"),
    ("She ate {} many sweets.", "too", "to two"),
    ("{} dog is very big.", "Their", "There They're"),
    ("Put the box over {}.", "there", "their they're"),
    ("I can {} the music.", "hear", "here"),
    ("Come {} at once.", "here", "hear"),
    ("The {} shines today.", "sun", "son"),
    ("He broke the window, he threw a ball {} it.", "through", "threw"),
    ("The {} is sunny today.", "weather", "whether"),
    ("I do not know {} he will come.", "whether", "weather"),
    ("We will {} at noon.", "meet", "meat"),
    ("She does not eat {}.", "meat", "meet"),
    ("He {} the race.", "won", "one"),
    ("The {} of the story was sad.", "whole", "hole"),
    ("There is a {} in my sock.", "hole", "whole"),
    ("He wrote with his {} hand.", "right", "write"),
    ("Please {} your name here.", "write", "right"),
    ("The wind {} all night.", "blew", "blue"),
    ("Her dress is {}.", "blue", "blew"),
    ("The {} sailed at dawn.", "ship", "sheep"),
    ("I need some {} and quiet.", "peace", "piece"),
    ("May I have a {} of cake?", "piece", "peace"),
    ("The car has bad {}.", "brakes", "breaks"),
    ("The {} of the school spoke.", "principal", "principle"),
    ("The medicine had a good {}.", "effect", "affect"),
    ("The cold may {} the plants.", "affect", "effect"),
    ("I would rather walk {} drive.", "than", "then"),
    ("First we eat, {} we leave.", "then", "than"),
    ("Do not {} your keys.", "lose", "loose"),
    ("This shirt is too {}.", "loose", "lose"),
    ("The {} of the table is cold.", "surface", "service"),
    ("She gave me good {}.", "advice", "advise"),
    ("I {} you to wait.", "advise", "advice"),
    ("The hotel was {} quiet.", "quite", "quiet"),
    ("I will {} your invitation.", "accept", "except"),
    ("All came {} Tom.", "except", "accept"),
    ("{} a nice day.", "It's", "Its"),
    ("The cat licked {} paw.", "its", "it's"),
    ("{} going to be late.", "You're", "Your"),
    ("Is this {} bag?", "your", "you're"),
    ("The king's {} lasted ten years.", "reign", "rain"),
    ("He walked along the {} to the altar.", "aisle", "isle"),
)


def gap_words(random: Random) -> Iterator[Question]:
    for sentence, right, others in HOMOPHONES:
        words = random.sample([right, *others.split()], 1 + len(others.split()))
        shape = random.choice(
            (
                'Which word is right: "{0}" ({1})',
                'Fill the gap with {1}: "{0}"',
                "Choose {1}: {0}",
            )
        )
        prompt = shape.format(sentence.format("___"), " or ".join(words))
        filled = sentence.format(right).rstrip(".?")
        yield Question(
            kind="gap_words", prompt=prompt, accepted=(right, filled), rivals=tuple(others.split())
        )


def word_grid(random: Random) -> Iterator[Question]:
    """Adjectives, adverbs and nouns made from one another."""
    table = read_pairs(WORD_FAMILIES)
    for word, answers in table:
        wanted, _, given = word.partition(" of ")
        shape = random.choice(('What is the {0} of "{1}"?', 'Give the {0} of the word "{1}".'))
        yield Question(kind="word_families", prompt=shape.format(wanted, given), accepted=answers)


WORD_FAMILIES = """
comparative of good=better; superlative of good=best; comparative of bad=worse; superlative of
bad=worst; comparative of big=bigger; superlative of small=smallest; comparative of
happy=happier; superlative of easy=easiest; comparative of far=farther/further; superlative of
little=least/littlest; comparative of beautiful=more beautiful;
superlative of expensive=most expensive; adverb of quick=quickly; adverb of good=well; adverb of
happy=happily; adverb of true=truly; adverb of fast=fast; noun form of strong=strength; noun
form of long=length; noun form of deep=depth; noun form of decide=decision; noun form of
arrive=arrival; noun form of brave=bravery; noun form of able=ability; noun form of grow=growth;
noun form of explain=explanation; noun form of hungry=hunger; noun form of poor=poverty; noun
form of young=youth; adjective of danger=dangerous; adjective of sun=sunny; adjective of
beauty=beautiful; adjective of wood=wooden/woody; adjective of hero=heroic; adjective of
nation=national; adjective of poison=poisonous; adjective of fame=famous; verb form of
choice=choose; verb form of loss=lose; verb form of proof=prove; verb form of thought=think;
verb form of sale=sell; verb form of belief=believe; verb form of blood=bleed; past participle
of go=gone; past participle of write=written; past participle of see=seen; past participle of
eat=eaten; past participle of begin=begun; past participle of swim=swum; past participle of
take=taken; past participle of break=broken; past participle of fly=flown; past participle of
know=known; past participle of steal=stolen; past participle of forbid=forbidden; third person
singular of go=goes; third person singular of have=has; third person singular of try=tries;
third person singular of do=does; ing form of run=running; ing form of lie=lying; ing form of
write=writing; ing form of swim=swimming; ing form of die=dying; feminine form of actor=actress;
feminine form of king=queen; feminine form of prince=princess; feminine form of waiter=waitress;
feminine form of nephew=niece; feminine form of hero=heroine
"""

KINDS: dict[str, tuple[Kind, ...]] = {
    "rewriting": (
        uppercase,
        lowercase,
        title_case,
        past_sentences,
        negations,
        passives,
        contractions,
        replacing,
        plural_sentences,
    ),
    "correcting": (grammar_fixes, spelling_fixes, gap_words),
    "summarising": (shortening,),
    "words": (synonyms, rhymes, definitions, word_grid),
}
