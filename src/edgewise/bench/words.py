"""Words, sayings and statements the calibration questions are made of, written by the authors."""

from __future__ import annotations

OPPOSITES = (
    """
    hot=cold/cool; big=small/little; up=down; day=night; good=bad/evil; happy=sad/unhappy;
    fast=slow; old=young/new; black=white; open=closed/shut/close; left=right; yes=no;
    light=dark/heavy; high=low; wet=dry; hard=soft/easy; rich=poor; strong=weak; full=empty;
    clean=dirty
    """,
    """
    early=late; begin=end/finish/stop; push=pull; love=hate; loud=quiet/soft; thick=thin;
    wide=narrow; deep=shallow; brave=cowardly/afraid/timid; true=false; win=lose; buy=sell;
    always=never; inside=outside; north=south; sharp=blunt/dull; sweet=sour/bitter; war=peace;
    success=failure; arrive=leave/depart
    """,
    """
    ancient=modern/new/recent; generous=stingy/selfish/mean/greedy; expand=contract/shrink;
    victory=defeat; humble=proud/arrogant; scarce=plentiful/abundant; transparent=opaque;
    temporary=permanent; import=export; optimist=pessimist; minimum=maximum;
    artificial=natural/real; convex=concave; verbose=concise/terse/brief; horizontal=vertical
    """,
)
COLOURS = (
    """
    the sky on a clear day=blue; grass=green; snow=white; a ripe banana=yellow; blood=red;
    coal=black; a lemon=yellow; milk=white; a ripe strawberry=red; a carrot=orange; the sun in a
    child's drawing=yellow/golden/gold; an orange=orange; chocolate=brown; a polar bear=white
    """,
    """
    an emerald=green; a ruby=red; a sapphire=blue; a flamingo=pink; an eggplant=purple; a
    raven=black; a school bus in the United States=yellow; a stop sign=red; a spinach leaf=green;
    ash=grey/gray; a cranberry=red; ivory=white; a tree trunk=brown; a pine needle=green
    """,
)
YOUNG = """
dog=puppy/pup/puppies; cat=kitten/kittens; cow=calf/calves; hen=chick/chicks;
horse=foal/colt/filly; sheep=lamb/lambs; duck=duckling/ducklings; pig=piglet/piglets;
goat=kid/kids; lion=cub/cubs; bear=cub/cubs; frog=tadpole/tadpoles; kangaroo=joey/joeys;
goose=gosling/goslings; deer=fawn/fawns; swan=cygnet/cygnets; owl=owlet/owlets;
eagle=eaglet/eaglets; hare=leveret; fox=cub/kit/pup/cubs/kits
"""
SOUNDS = """
dog=bark/barks/woof; cat=meow/meows/purr; cow=moo/moos; duck=quack/quacks; sheep=baa/bleat;
lion=roar/roars; horse=neigh/neighs/whinny; snake=hiss/hisses; pig=oink/oinks/grunt;
bee=buzz/buzzes; wolf=howl/howls; frog=croak/croaks/ribbit; owl=hoot/hoots;
donkey=bray/brays/hee haw
"""
LEGS = """
dog=4; spider=8; bird=2; ant=6; horse=4; bee=6; cat=4; fly=6; crab=10; beetle=6; chicken=2;
scorpion=8
"""
ANIMAL_CLASSES = """
dog=mammal; eagle=bird; salmon=fish; ant=insect; snake=reptile; frog=amphibian; cat=mammal;
shark=fish; crocodile=reptile; penguin=bird; whale=mammal; bat=mammal; butterfly=insect;
tuna=fish; parrot=bird; lizard=reptile; dolphin=mammal; salamander=amphibian; ostrich=bird;
mosquito=insect; turtle=reptile; seahorse=fish; toad=amphibian; horse=mammal; beetle=insect
"""
PLURALS = """
cat=cats; dog=dogs; car=cars; book=books; apple=apples; child=children; man=men; woman=women;
foot=feet; tooth=teeth; mouse=mice; baby=babies; box=boxes; city=cities; leaf=leaves;
knife=knives; goose=geese; person=people/persons; wolf=wolves; 
potato=potatoes; ox=oxen; cactus=cacti/cactuses; criterion=criteria; phenomenon=phenomena;
hero=heroes; thief=thieves; louse=lice; analysis=analyses
"""
PAST_TENSES = """
walk=walked; play=played; go=went; eat=ate; see=saw; run=ran; have=had; is=was; make=made;
take=took; come=came; give=gave; write=wrote; sing=sang; swim=swam; buy=bought; think=thought;
drink=drank; fly=flew; break=broke; teach=taught; catch=caught; begin=began; sleep=slept;
choose=chose; freeze=froze; seek=sought; weave=wove/weaved; forbid=forbade; tear=tore
"""
JOBS = """
bakes bread=baker; teaches children at a school=teacher; flies an aeroplane=pilot; puts out
fires=firefighter/fireman/fire fighter; treats sick people=doctor/physician/nurse; grows crops
and keeps animals=farmer; writes books=author/writer; paints pictures=painter/artist; catches
fish=fisherman/fisher/angler; cuts hair=barber/hairdresser; repairs teeth=dentist; cooks in a
restaurant=chef/cook; acts in films=actor/actress; drives a taxi=taxi driver/driver/cab driver;
delivers letters=postman/mailman/mail carrier/postal worker; repairs water pipes=plumber;
designs buildings=architect; takes photographs=photographer; treats sick
animals=veterinarian/vet; makes furniture from wood=carpenter/woodworker/joiner/cabinetmaker;
sells meat=butcher; studies the stars=astronomer; makes clothes=tailor/seamstress/dressmaker;
plays music=musician; reports the news=journalist/reporter; looks after books in a
library=librarian; studies rocks=geologist; makes horseshoes=blacksmith/farrier; studies
insects=entomologist; makes barrels=cooper; makes maps=cartographer
"""
SAYINGS = """
An apple a day keeps the doctor=away; Actions speak louder than=words; Better late than=never;
Practice makes=perfect; The early bird catches the=worm; Honesty is the best=policy; Time
is=money; Two heads are better than=one; When in Rome, do as the Romans=do; Twinkle, twinkle,
little=star; Happy birthday to=you; The grass is always greener on the other=side; Roses are
red, violets are=blue; Once upon a=time; To be or not to=be; Row, row, row your=boat; Mary had a
little=lamb; Don't judge a book by its=cover; A picture is worth a thousand=words; Birds of a
feather flock=together; Curiosity killed the=cat; Every cloud has a silver=lining; Rome was not
built in a=day; Look before you=leap; No pain, no=gain; Where there's smoke, there's=fire; You
can't teach an old dog new=tricks; A stitch in time saves=nine; All that glitters is not=gold;
Still waters run=deep; The pen is mightier than the=sword; Necessity is the mother of=invention;
Too many cooks spoil the=broth; A rolling stone gathers no=moss; Don't count your chickens
before they=hatch; Absence makes the heart grow=fonder; Beauty is in the eye of the=beholder;
Discretion is the better part of=valour/valor; Cleanliness is next to=godliness; People who live
in glass houses should not throw=stones
"""
GROUPS = {
    "fruit": "apple banana orange pear grape cherry mango peach plum lemon",
    "tool": "hammer saw screwdriver wrench drill chisel axe shovel pliers",
    "animal": "dog cat horse lion tiger elephant rabbit monkey sheep cow",
    "colour": "red blue green yellow purple pink brown black white",
    "vehicle": "car bus train bicycle truck boat tram motorcycle",
    "vegetable": "carrot potato onion cabbage spinach broccoli lettuce leek",
    "piece of clothing": "shirt hat coat trousers sock glove scarf skirt",
    "musical instrument": "piano guitar violin trumpet flute drum cello harp",
    "piece of furniture": "table chair bed sofa desk wardrobe bookshelf",
    "bird": "eagle sparrow robin owl parrot penguin swan crow",
    "country": "France Japan Brazil Egypt Canada Poland Kenya India",
    "metal": "gold silver copper zinc nickel tin",
}
TRANSLATIONS = {
    "Spanish": """
    dog=perro; cat=gato; house=casa; water=agua; red=rojo/roja; book=libro; hello=hola; thank
    you=gracias; friend=amigo/amiga; bread=pan; milk=leche; night=noche; sun=sol;
    white=blanco/blanca; school=escuela; green=verde; window=ventana; tomorrow=manana; spoon=cuchara
    """,
    "French": """
    dog=chien; cat=chat; house=maison; water=eau; red=rouge; book=livre; hello=bonjour/salut; thank
    you=merci; friend=ami/amie; bread=pain; milk=lait; night=nuit; sun=soleil; white=blanc/blanche;
    school=ecole; green=vert/verte; window=fenetre; tomorrow=demain; spoon=cuillere/cuiller
    """,
    "German": """
    dog=Hund; cat=Katze; house=Haus; water=Wasser; red=rot; book=Buch; hello=hallo/guten Tag; thank
    you=danke; friend=Freund/Freundin; bread=Brot; milk=Milch; night=Nacht; sun=Sonne;
    white=weiss/weiß; school=Schule; green=grun/gruen; window=Fenster; tomorrow=morgen;
    spoon=Loffel/Loeffel
    """,
}
# Statements end in + when they are true, in - when they are not.
TRUTHS = (
    """
    Is the sun a star? +; Is ice cold? +; Can fish fly like birds? -; Is a dog an animal? +; Is fire
    hot? +; Do cows lay eggs? -; Is Paris in France? +; Is a car alive? -; Do birds have wings? +;
    Is the moon made of cheese? -; Is 5 greater than 3? +; Do people need sleep? +; Is snow black?
    -; Can a stone swim? -; Is a banana a fruit? +; Do trees have leaves? +; Is Monday a month? -;
    Is winter warmer than summer? -; Do cats bark? -; Is sugar sweet? +; Is a hammer a tool? +; Is
    gold a metal? +; Is milk usually blue? -; Do fish live in water? +
    """,
    """
    Is a whale a fish? -; Is a tomato a fruit? +; Is Africa a country? -; Is the Earth flat? -; Do
    spiders have six legs? -; Is Berlin the capital of Germany? +; Is Sydney the capital of
    Australia? -; Is 17 a prime number? +; Is 9 a prime number? -; Do penguins fly? -; Is bronze an
    alloy? +; Is the Pacific larger than the Atlantic? +; Is Mount Everest in Africa? -; Did
    Shakespeare write Hamlet? +; Is the heart a muscle? +; Is lead heavier than feathers of the same
    volume? +; Is Pluto larger than Jupiter? -; Does the Earth orbit the sun? +; Is Portuguese
    spoken in Brazil? +; Is glass made from sand? +; Are bats birds? -; Does sound travel in a
    vacuum? -; Is 100 divisible by 7? -; Is the Nile in South America? -; Are dolphins mammals? +;
    Is a square a rectangle? +; Does a triangle have four sides? -; Is Japan an island nation? +
    """,
    """
    Is Vatican City larger than Monaco? -; Is 91 a prime number? -; Is Canberra in New South Wales?
    -; Is helium a noble gas? +; Is Istanbul the capital of Turkey? -; Is a strawberry a berry in
    botany? -; Is a banana a berry in botany? +; Did Napoleon win the Battle of Waterloo? -; Is
    Venus hotter than Mercury? +; Is zero an even number? +; Is the Great Wall of China visible from
    the moon with the naked eye? -; Is Greenland part of the Kingdom of Denmark? +; Is 2 the only
    even prime number? +; Is the square root of 2 rational? -; Does Russia share a border with
    Norway? +; Is mercury liquid at room temperature? +; Is the liver larger than the kidney? +; Is
    Quito in Peru? -; Do sharks have bones? -; Is Iceland farther north than Scotland? +
    """,
)
SIZES = """
mouse elephant; ant dog; bicycle train; village city; pond ocean; spoon bathtub; hill mountain;
kitten tiger; egg house; coin table; grape watermelon; bee horse; Monaco Russia; moon sun; atom
molecule; stream river; chick ostrich; canoe cruise ship; Earth Jupiter; pea pumpkin
"""
PASSAGE_WORDS = """
garden winter music kitchen river holiday window mountain friendship breakfast library storm
market bicycle forest island teacher painting summer bridge
"""
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday"
MONTHS = "January February March April May June July August September October November December"
PLAIN_WORDS = """
cat house apple river window garden orange planet kitchen mother winter silver animal summer bridge
market basket dragon pencil rocket tunnel castle forest button camera doctor engine
"""
HARD_WORDS = "strawberry elephant butterfly mountain chocolate library umbrella crocodile"
NAMES = "Anna Tom Maria Peter Lucy David Nina Paul Emma Jack Sara Oscar"
CITIES = "Oslo Paris Lisbon Boston Cairo Dublin Tokyo Vienna Madrid Toronto"
THINGS = "apples books chairs pencils tickets shirts lamps cups plates roses"
PLAIN_COLOURS = "red blue green yellow black white purple"
COUNTS = "three four five six seven eight nine twelve"
