"""Facts, words and sayings that the questions are made of, written by the authors of edgewise."""

from __future__ import annotations

CAPITALS = (
    """
    France=Paris; Germany=Berlin; Italy=Rome; Spain=Madrid; England=London; Japan=Tokyo;
    China=Beijing/Peking; Russia=Moscow; Egypt=Cairo; Greece=Athens; India=New Delhi/Delhi;
    Ireland=Dublin; Austria=Vienna/Wien; Portugal=Lisbon; Canada=Ottawa; Mexico=Mexico City; the
    United States=Washington
    """,
    """
    Poland=Warsaw; Norway=Oslo; Sweden=Stockholm; Denmark=Copenhagen; Finland=Helsinki;
    Hungary=Budapest; Turkey=Ankara; Australia=Canberra; Brazil=Brasilia; Argentina=Buenos Aires;
    Cuba=Havana; Kenya=Nairobi; Thailand=Bangkok; South Korea=Seoul; Vietnam=Hanoi; Peru=Lima;
    Switzerland=Bern/Berne; Belgium=Brussels; Iran=Tehran; Iraq=Baghdad; Chile=Santiago; the
    Netherlands=Amsterdam; New Zealand=Wellington; Indonesia=Jakarta; Ukraine=Kyiv/Kiev
    """,
    """
    Mongolia=Ulaanbaatar/Ulan Bator; Kazakhstan=Astana; Burkina Faso=Ouagadougou; Bhutan=Thimphu;
    Bulgaria=Sofia; Romania=Bucharest; Slovenia=Ljubljana; Latvia=Riga; Lithuania=Vilnius;
    Estonia=Tallinn; Croatia=Zagreb; Iceland=Reykjavik; Uruguay=Montevideo; Ecuador=Quito;
    Paraguay=Asuncion; Ghana=Accra; Nigeria=Abuja; Ethiopia=Addis Ababa; Senegal=Dakar;
    Madagascar=Antananarivo; Nepal=Kathmandu; Laos=Vientiane; Oman=Muscat; Albania=Tirana
    """,
)
CONTINENTS = (
    """
    France=Europe; Germany=Europe; China=Asia; India=Asia; Japan=Asia; Egypt=Africa; Brazil=South
    America; Canada=North America; Mexico=North America; Spain=Europe; Kenya=Africa
    """,
    """
    Nigeria=Africa; Peru=South America; Chile=South America; Thailand=Asia; Vietnam=Asia;
    Poland=Europe; Norway=Europe; Morocco=Africa; Cuba=North America/Caribbean/Central America;
    Pakistan=Asia; Iran=Asia
    """,
    """
    Mongolia=Asia; Bolivia=South America; Zambia=Africa; Suriname=South America; Moldova=Europe;
    Bhutan=Asia; Honduras=North America/Central America; Namibia=Africa; Laos=Asia; Malta=Europe
    """,
)
LANGUAGES = (
    """
    France=French; Germany=German; Italy=Italian; Japan=Japanese; England=English; Spain=Spanish;
    China=Chinese/Mandarin; Russia=Russian; Greece=Greek; Portugal=Portuguese
    """,
    """
    Mexico=Spanish; Brazil=Portuguese; Argentina=Spanish; Poland=Polish; Sweden=Swedish;
    Turkey=Turkish; Austria=German; Egypt=Arabic; Australia=English; Hungary=Hungarian
    """,
    """
    Iran=Persian/Farsi; Angola=Portuguese; Senegal=French; Cambodia=Khmer; Suriname=Dutch;
    Moldova=Romanian
    """,
)
CURRENCIES = (
    """
    Japan=yen; the United States=dollar/dollars; the United Kingdom=pound/pounds;
    India=rupee/rupees; Germany=euro/euros; China=yuan/renminbi; Russia=ruble/rouble/rubles;
    Mexico=peso/pesos
    """,
    """
    Switzerland=franc/francs; Brazil=real/reais; South Korea=won; Poland=zloty; Turkey=lira;
    Sweden=krona/kronor; Israel=shekel/shekels; Thailand=baht; South Africa=rand
    """,
    """
    Hungary=forint; Vietnam=dong; Kenya=shilling/shillings; Nigeria=naira; Mongolia=tugrik/togrog;
    Peru=sol; Ukraine=hryvnia; Georgia=lari; Malaysia=ringgit
    """,
)
SYMBOLS = (
    """
    gold=Au; silver=Ag; iron=Fe; oxygen=O; hydrogen=H; carbon=C; helium=He; sodium=Na
    """,
    """
    copper=Cu; lead=Pb; tin=Sn; zinc=Zn; potassium=K; calcium=Ca; nitrogen=N; chlorine=Cl;
    mercury=Hg; magnesium=Mg; aluminium=Al; neon=Ne; nickel=Ni; sulfur=S; uranium=U
    """,
    """
    tungsten=W; antimony=Sb; cobalt=Co; platinum=Pt; manganese=Mn; titanium=Ti;
    krypton=Kr; xenon=Xe; radium=Ra; lithium=Li; silicon=Si; phosphorus=P
    """,
)
AUTHORS = (
    """
    Romeo and Juliet=Shakespeare; Hamlet=Shakespeare; Harry Potter=Rowling; Oliver Twist=Dickens;
    Pride and Prejudice=Austen; The Odyssey=Homer; Don Quixote=Cervantes; The Hobbit=Tolkien; A
    Christmas Carol=Dickens; Macbeth=Shakespeare; The Lord of the Rings=Tolkien
    """,
    """
    Moby-Dick=Melville; War and Peace=Tolstoy; Frankenstein=Shelley; Dracula=Stoker; 1984=Orwell;
    Animal Farm=Orwell; Crime and Punishment=Dostoevsky/Dostoyevsky; The Great Gatsby=Fitzgerald;
    Jane Eyre=Bronte; Gulliver's Travels=Swift; Treasure Island=Stevenson; Robinson Crusoe=Defoe;
    Les Miserables=Hugo; To Kill a Mockingbird=Lee; The Divine Comedy=Dante/Alighieri
    """,
    """
    Faust=Goethe; The Trial=Kafka; The Magic Mountain=Mann; Ulysses=Joyce; Madame Bovary=Flaubert;
    Beloved=Morrison; The Stranger=Camus; Buddenbrooks=Mann; Candide=Voltaire; Siddhartha=Hesse; The
    Name of the Rose=Eco; Dead Souls=Gogol; Things Fall Apart=Achebe; Mrs Dalloway=Woolf
    """,
)
PEOPLE = (
    """
    Who painted the Mona Lisa?=Leonardo/da Vinci; Who was the first president of the United
    States?=Washington; Who was the first person to walk on the moon?=Armstrong; Who developed the
    theory of relativity?=Einstein; Who discovered gravity when an apple fell?=Newton; Who invented
    the telephone?=Bell; Who invented the light bulb?=Edison/Swan
    """,
    """
    Who painted The Starry Night?=van Gogh; Who composed the Moonlight Sonata?=Beethoven; Who
    discovered penicillin?=Fleming; Who wrote the theory of evolution by natural selection?=Darwin;
    Who painted Guernica?=Picasso; Who composed The Magic Flute?=Mozart; Who was the first person in
    space?=Gagarin; Who discovered radium?=Curie; Who led India to independence with
    non-violence?=Gandhi; Who was president of the United States in the Civil War?=Lincoln; Who
    sailed to America in 1492?=Columbus
    """,
    """
    Who invented the printing press in Europe?=Gutenberg; Who proved Fermat's Last Theorem?=Wiles;
    Who composed The Planets?=Holst; Who sculpted The Thinker?=Rodin; Who discovered the planet
    Uranus?=Herschel; Who formulated the periodic table?=Mendeleev; Who first reached the South
    Pole?=Amundsen; Who painted The Night Watch?=Rembrandt; Who invented dynamite?=Nobel; Who
    composed The Rite of Spring?=Stravinsky
    """,
)
YEARS = (
    """
    did World War II end=1945; did World War I begin=1914; did the first person walk on the
    moon=1969; did Columbus reach America=1492; did World War II begin=1939; was the American
    Declaration of Independence signed=1776; did World War I end=1918
    """,
    """
    did the French Revolution begin=1789; did the Berlin Wall fall=1989; did the Titanic sink=1912;
    was the Battle of Hastings=1066; did the Soviet Union dissolve=1991; did the American Civil War
    end=1865; was John F. Kennedy shot=1963
    """,
    """
    was the Magna Carta signed=1215; was the Peace of Westphalia=1648; was the Battle of
    Waterloo=1815; did Constantinople fall to the Ottomans=1453; was the Great Fire of London=1666;
    did the Russian Revolution take place=1917; was the Spanish Armada defeated=1588; did the
    Chernobyl disaster happen=1986
    """,
)
SCIENCE = (
    """
    What planet do we live on?=Earth; What do bees make?=honey; What star is at the centre of our
    solar system?=sun; What do we call frozen water?=ice; What organ pumps blood through the
    body?=heart; What gas do humans need to breathe?=oxygen/air; What force pulls things to the
    ground?=gravity; What do cows drink?=water; What is H2O?=water; What organ do we think
    with?=brain; What do caterpillars turn into?=butterflies/butterfly/moth/moths
    """,
    """
    What planet is known as the Red Planet?=Mars; What is the largest planet in our solar
    system?=Jupiter; What planet is closest to the sun?=Mercury; What gas do plants take in from the
    air?=carbon dioxide/co2; What is the largest ocean on Earth?=Pacific; What is the longest river
    in Africa?=Nile; What is the tallest mountain on Earth?=Everest; What is the hardest natural
    material?=diamond/diamonds; What is the largest animal on Earth?=blue whale; What is the fastest
    land animal?=cheetah; What gas makes up most of the air?=nitrogen; What vitamin does sunlight
    give us?=vitamin D/D; What is the largest organ of the human body?=skin; What part of a plant
    takes up water?=root/roots; What instrument measures temperature?=thermometer; What do we call
    animals that eat only plants?=herbivore/herbivores
    """,
    """
    What particle carries a negative charge?=electron/electrons; What is the powerhouse of the
    cell?=mitochondria/mitochondrion; What is the rarest blood type?=AB negative/AB; What is the
    most abundant element in the universe?=hydrogen; What is the largest desert on
    Earth?=Antarctica/Antarctic/Sahara; What layer of the atmosphere holds the ozone
    layer?=stratosphere; What is the smallest bone in the human body?=stapes/stirrup; What unit
    measures electrical resistance?=ohm/ohms; What is the deepest lake on Earth?=Baikal; What galaxy
    is nearest to the Milky Way?=Andromeda/Canis Major; What pigment makes leaves
    green?=chlorophyll; What is the study of fungi called?=mycology; What element has atomic number
    26?=iron; What mineral is softest on the Mohs scale?=talc
    """,
)
ABBREVIATIONS = (
    """
    USA=united states|states,america; UK=united,kingdom; FAQ=frequently,asked,questions;
    ASAP=soon,possible; CEO=chief,executive,officer; DIY=do,yourself; UN=united,nations
    """,
    """
    NASA=national,aeronautics,space; WHO=world,health,organization|organisation; EU=european,union;
    GPS=global,positioning; DNA=deoxyribonucleic; AI=artificial,intelligence;
    ATM=automated|automatic,teller; PDF=portable,document; CPU=central,processing;
    FBI=federal,bureau
    """,
    """
    LASER=light,amplification; SQL=structured,query; HTTP=hypertext,transfer;
    OPEC=petroleum,exporting; UNESCO=educational,scientific,cultural; RADAR=radio,detection;
    JPEG=joint,photographic; NATO=north,atlantic,treaty; SCUBA=contained,underwater; RNA=ribonucleic
    """,
)
CALENDAR_FACTS = (
    """
    How many days are there in a week?=7; How many months are there in a year?=12; How many hours
    are there in a day?=24; What is the first month of the year?=January; What is the last month of
    the year?=December; How many days are there in a normal year?=365
    """,
    """
    How many days are there in a leap year?=366; How many weeks are there in a year?=52; How many
    days does February have in a normal year?=28; How many days does April have?=30; In what month
    is Christmas Day?=December; How many years are there in a century?=100; What is the shortest
    month of the year?=February; How many days does August have?=31; How many years are there in a
    decade?=10; How many years are there in a millennium?=1000; In what month is Halloween?=October
    """,
    """
    How many minutes are there in a week?=10080; How many hours are there in a week?=168; How many
    days are there from January to March in a normal year?=90; How many seconds are there in a
    day?=86400; What is the ninth month of the year?=September; What is the fifth month of the
    year?=May
    """,
)
UNITS = (
    """
    minutes|an hour=60; seconds|a minute=60; centimetres|a metre=100; grams|a kilogram=1000;
    metres|a kilometre=1000; cents|a dollar=100; items|a dozen=12; inches|a foot=12
    """,
    """
    millimetres|a centimetre=10; millilitres|a litre=1000; feet|a yard=3; ounces|a pound=16;
    seconds|an hour=3600; kilograms|a tonne=1000; degrees|a right angle=90; degrees|a circle=360;
    pence|a British pound=100; bits|a byte=8; hours|two days=48; minutes|half an hour=30
    """,
    """
    feet|a mile=5280; yards|a mile=1760; pints|a gallon=8; metres|a nautical mile=1852; pounds|a
    stone=14; furlongs|a mile=8; square metres|a hectare=10000; seconds|two hours=7200; sheets|a
    ream=500; carats|a gram=5
    """,
)


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
