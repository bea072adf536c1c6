"""More that a model may know: places, people, animals, food, machines, words for things."""

from __future__ import annotations

from edgewise_bench.questions.kinds.recall import Kind, lookup

# -- places ----------------------------------------------------------------------------------------

CITIES = (
    """
    Paris=France; London=England/United Kingdom/UK/Britain; Rome=Italy; Berlin=Germany;
    Tokyo=Japan; New York=United States/USA/US/America; Madrid=Spain; Moscow=Russia;
    Beijing=China; Cairo=Egypt; Sydney=Australia; Toronto=Canada; Athens=Greece; Dublin=Ireland;
    Amsterdam=Netherlands/Holland
    """,
    """
    Munich=Germany; Barcelona=Spain; Milan=Italy; Osaka=Japan; Mumbai=India; Shanghai=China;
    Istanbul=Turkey/Türkiye; Rio de Janeiro=Brazil; Melbourne=Australia; Vancouver=Canada;
    Zurich=Switzerland; Kraków=Poland; Porto=Portugal; Lyon=France; Saint Petersburg=Russia;
    Casablanca=Morocco; Cape Town=South Africa; Marrakesh=Morocco; Dubai=United Arab
    Emirates/UAE; Hamburg=Germany; Naples=Italy; Seville=Spain; Glasgow=Scotland/United
    Kingdom/UK; Prague=Czech
    """,
    """
    Gothenburg=Sweden; Antwerp=Belgium; Salzburg=Austria; Bergen=Norway; Aarhus=Denmark;
    Lahore=Pakistan; Chiang Mai=Thailand; Medellín=Colombia; Guadalajara=Mexico; Córdoba=Spain/
    Argentina; Lagos=Nigeria/Portugal; Mombasa=Kenya; Kumasi=Ghana; Da Nang=Vietnam; Busan=South
    Korea/Korea; Kaohsiung=Taiwan; Izmir=Turkey/Türkiye; Lviv=Ukraine; Kaunas=Lithuania;
    Plovdiv=Bulgaria; Cluj-Napoca=Romania; Tampere=Finland; Arequipa=Peru; Valparaíso=Chile;
    Cochabamba=Bolivia; Guayaquil=Ecuador; Mandalay=Myanmar/Burma; Chittagong=Bangladesh
    """,
)
city_countries = lookup(
    "city_countries",
    CITIES,
    (
        "In which country is {}?",
        "What country is the city of {} in?",
        "{} is a city in which country?",
    ),
    rivalry=False,
)

LANDMARKS = (
    """
    the Eiffel Tower=Paris; Big Ben=London; the Colosseum=Rome; the Statue of Liberty=New York;
    the Brandenburg Gate=Berlin; the Kremlin=Moscow; the Louvre=Paris; the Acropolis=Athens; the
    Sydney Opera House=Sydney; the Golden Gate Bridge=San Francisco; the White House=Washington
    """,
    """
    the Sagrada Família=Barcelona; the Hagia Sophia=Istanbul; the Burj Khalifa=Dubai; the
    Prado=Madrid; the Uffizi Gallery=Florence; the Rijksmuseum=Amsterdam; the Forbidden
    City=Beijing; the Hermitage Museum=Saint Petersburg/St Petersburg/St. Petersburg; the
    Atomium=Brussels; the Space Needle=Seattle; the Hollywood sign=Los Angeles; the CN
    Tower=Toronto; the Little Mermaid statue=Copenhagen; the Charles Bridge=Prague; Christ the
    Redeemer=Rio de Janeiro/Rio; the Gateway Arch=St. Louis/St Louis/Saint Louis; the Taj
    Mahal=Agra; Buckingham Palace=London
    """,
    """
    the Belém Tower=Lisbon; the Wawel Castle=Kraków; the Hofburg=Vienna; the Zwinger=Dresden;
    the Rialto Bridge=Venice; the Alhambra=Granada; the Petronas Towers=Kuala Lumpur; the Blue
    Mosque=Istanbul; the Fisherman's Bastion=Budapest; the Cloud Gate sculpture=Chicago; the
    Rock and Roll Hall of Fame=Cleveland; the Guggenheim Museum with the titanium roof=Bilbao;
    the Vasa Museum=Stockholm; Gyeongbokgung Palace=Seoul; the Golden Pavilion Kinkaku-ji=Kyoto;
    the Hassan II Mosque=Casablanca
    """,
)
landmarks = lookup(
    "landmarks",
    LANDMARKS,
    ("In which city is {}?", "In what city can you visit {}?", "Which city is home to {}?"),
    rivalry=False,
    times=2,
)

NATURE = (
    """
    Mount Fuji=Japan; the Grand Canyon=United States/USA/US/America/Arizona; the river
    Thames=England/United Kingdom/UK/London; Mount Vesuvius=Italy; the Great Barrier
    Reef=Australia; the Black Forest=Germany
    """,
    """
    Mount Kilimanjaro=Tanzania; Lake Garda=Italy; the river Seine=France; Loch
    Ness=Scotland/United Kingdom/UK; the river Po=Italy; Mount Etna=Italy; the Atacama
    Desert=Chile; the river Volga=Russia; Lake Baikal=Russia; Uluru=Australia; the Serengeti
    National Park=Tanzania; the river Ganges=India/Bangladesh; Yellowstone National Park=United
    States/USA/US/America/Wyoming; Mont Blanc=France/Italy; the island of Bali=Indonesia; the
    island of Crete=Greece; Table Mountain=South Africa; the island of Sicily=Italy; Machu
    Picchu=Peru; Angkor Wat=Cambodia
    """,
    """
    Mount Elbrus=Russia; Aconcagua=Argentina; the river Loire=France; the river Ebro=Spain; Lake
    Balaton=Hungary; the Okavango Delta=Botswana; the salt flat Salar de Uyuni=Bolivia; the
    island of Gotland=Sweden; the island of Madeira=Portugal; the river Vistula=Poland; the
    Plitvice Lakes=Croatia; the island of Zanzibar=Tanzania; Denali=United
    States/USA/US/America/Alaska; Lake Tana=Ethiopia; the island of Hokkaido=Japan; Mount
    Ararat=Turkey/Türkiye; the Danakil Desert=Ethiopia; Lake Inari=Finland; the river
    Douro=Portugal/Spain; Mount Kinabalu=Malaysia; the Blue Lagoon hot spring=Iceland; Ha Long
    Bay=Vietnam; the river Orinoco=Venezuela/Colombia
    """,
)
nature = lookup(
    "nature",
    NATURE,
    ("In which country is {}?", "Where is {}? Name the country.", "Which country is {} in?"),
    rivalry=False,
    times=2,
)

STATES = (
    """
    Texas=Austin; Hawaii=Honolulu; Massachusetts=Boston; Colorado=Denver; Georgia=Atlanta;
    Arizona=Phoenix; Utah=Salt Lake City; California=Sacramento; Florida=Tallahassee; New
    York=Albany
    """,
    """
    Ohio=Columbus; Illinois=Springfield; Tennessee=Nashville; Oregon=Salem; Nevada=Carson City;
    Alaska=Juneau; Louisiana=Baton Rouge; Michigan=Lansing; Pennsylvania=Harrisburg;
    Virginia=Richmond; Minnesota=Saint Paul/St. Paul/St Paul; Indiana=Indianapolis;
    Oklahoma=Oklahoma City; Iowa=Des Moines; Wisconsin=Madison; Maryland=Annapolis; New
    Jersey=Trenton; Idaho=Boise; Arkansas=Little Rock; North Carolina=Raleigh
    """,
    """
    Kentucky=Frankfort; Maine=Augusta; Vermont=Montpelier; South Dakota=Pierre; North
    Dakota=Bismarck; Delaware=Dover; New Hampshire=Concord; Missouri=Jefferson City;
    Wyoming=Cheyenne; Montana=Helena; Nebraska=Lincoln; Kansas=Topeka; Mississippi=Jackson;
    Alabama=Montgomery; West Virginia=Charleston; South Carolina=Columbia; Connecticut=Hartford;
    Rhode Island=Providence; New Mexico=Santa Fe; Washington=Olympia
    """,
)
state_capitals = lookup(
    "state_capitals",
    STATES,
    (
        "What is the capital of the US state of {}?",
        "Which city is the state capital of {}?",
        "Name the capital of {}, the American state.",
    ),
    times=2,
)

PEOPLES = (
    """
    Germany=German; Italy=Italian; Spain=Spaniard/Spanish; Mexico=Mexican; Japan=Japanese;
    Canada=Canadian; Australia=Australian/Aussie; Brazil=Brazilian; Russia=Russian;
    India=Indian; France=French/Frenchman/Frenchwoman; England=English/Englishman/Englishwoman;
    China=Chinese
    """,
    """
    Denmark=Dane/Danish; Sweden=Swede/Swedish; Finland=Finn/Finnish; Poland=Pole/Polish;
    Turkey=Turk/ Turkish; Scotland=Scot/Scottish/Scotsman; the
    Netherlands=Dutch/Dutchman/Dutchwoman; Switzerland=Swiss; Greece=Greek; Portugal=Portuguese;
    Norway=Norwegian; Peru=Peruvian; Thailand=Thai; Vietnam=Vietnamese;
    Iceland=Icelander/Icelandic; Pakistan=Pakistani; Iraq=Iraqi;
    Argentina=Argentine/Argentinian/Argentinean; New Zealand=New Zealander/Kiwi;
    Wales=Welsh/Welshman
    """,
    """
    Madagascar=Malagasy; Monaco=Monegasque/Monacan; Ivory Coast=Ivorian; Burkina Faso=Burkinabe;
    Niger=Nigerien; Cyprus=Cypriot; Malta=Maltese; Slovenia=Slovene/Slovenian; Kosovo=Kosovar;
    Bangladesh=Bangladeshi; the Philippines=Filipino/Filipina; Lesotho=Mosotho/Basotho;
    Botswana=Motswana/Batswana; Halifax=Haligonian; Liverpool=Liverpudlian/Scouser; Manchester=
    Mancunian; Glasgow=Glaswegian; Naples=Neapolitan; Venice=Venetian; Moscow=Muscovite;
    Barbados=Bajan/ Barbadian
    """,
)
peoples = lookup(
    "peoples",
    PEOPLES,
    ("What do you call a person from {}?", "What is someone from {} called?"),
    rivalry=False,
    times=2,
)

# -- people and their works ------------------------------------------------------------------------

FOUNDERS = (
    """
    Who founded Microsoft with Paul Allen?=Gates; Who founded Apple with Steve Wozniak?=Jobs;
    Who founded Amazon?=Bezos; Who founded Facebook?=Zuckerberg; Who runs Tesla and
    SpaceX?=Musk; Who created Mickey Mouse?=Disney
    """,
    """
    Who invented the World Wide Web?=Berners-Lee/Berners Lee; Who created Linux?=Torvalds; Who
    created the Python programming language?=van Rossum/Rossum; Who founded IKEA?=Kamprad; Who
    invented the dynamite and gave his name to a prize?=Nobel; Who founded the Ford Motor
    Company?=Ford; Which company makes the PlayStation?=Sony; Which company makes the
    iPhone?=Apple; Which company makes the Xbox?=Microsoft; Which company makes the Android
    operating system?=Google; Which company bought YouTube in 2006?=Google; Which company makes
    Photoshop?=Adobe; Which company makes the Galaxy phones?=Samsung; Which company makes the
    Mustang?=Ford; Which company makes the 911 sports car?=Porsche; Which company makes the
    Corolla?=Toyota; Who founded Virgin?=Branson; Which company makes the Switch
    console?=Nintendo
    """,
    """
    Who created the C programming language?=Ritchie; Who created JavaScript?=Eich; Who designed
    C++?=Stroustrup; Who created the programming language Perl?=Wall; Who created Git?=Torvalds;
    Who founded Wikipedia with Larry Sanger?=Wales; Who invented the vulcanisation of
    rubber?=Goodyear; Who invented the jet engine in Britain?=Whittle; Who invented the
    ballpoint pen?=Bíró/Biro/Loud; Who founded the Red Cross?=Dunant; Who invented the Rubik's
    Cube?=Rubik; Who created the game Tetris?=Pajitnov; Which company makes the Golf
    car?=Volkswagen/VW; Which company makes the Octavia?=Škoda/Skoda; Which company makes the
    Clio?=Renault; Who founded Nike with Bill Bowerman?=Knight; Who invented the safety
    lift?=Otis; Who invented the Braille script?=Braille; Who founded Dell?=Dell; Who invented
    the pacemaker that can be implanted?=Greatbatch/Elmqvist/Senning
    """,
)
founders = lookup("founders", FOUNDERS, ("{}",), rivalry=False, times=1)

FILMS = (
    """
    Titanic=Cameron; Jurassic Park=Spielberg; E.T.=Spielberg; Pulp Fiction=Tarantino;
    Jaws=Spielberg; Avatar=Cameron; Schindler's List=Spielberg; Inception=Nolan;
    Psycho=Hitchcock; Star Wars, the film of 1977=Lucas; Kill Bill=Tarantino; The Dark
    Knight=Nolan
    """,
    """
    The Godfather=Coppola; The Shining=Kubrick; Gladiator=Scott; Alien=Scott; Taxi
    Driver=Scorsese; Interstellar=Nolan; Spirited Away=Miyazaki; Forrest Gump=Zemeckis; Back to
    the Future=Zemeckis; Fight Club=Fincher; Vertigo=Hitchcock; 2001: A Space Odyssey=Kubrick;
    Goodfellas=Scorsese; Citizen Kane=Welles; The Birds=Hitchcock; Oppenheimer=Nolan;
    Barbie=Gerwig; Dune, the film of 2021=Villeneuve; The Lord of the Rings films=Jackson;
    Terminator 2=Cameron
    """,
    """
    Amélie=Jeunet; Parasite=Bong; La La Land=Chazelle; Metropolis=Lang; Seven Samurai=Kurosawa;
    8½=Fellini; The Seventh Seal=Bergman; Pan's Labyrinth=del Toro; No Country for Old Men=Coen;
    Fargo=Coen; Mulholland Drive=Lynch; Black Swan=Aronofsky; Her=Jonze; Lost in
    Translation=Coppola; Children of Men=Cuarón/Cuaron; The Pianist=Polanski; Das Boot=Petersen;
    Blade Runner=Scott; Stalker=Tarkovsky; Chinatown=Polanski; The Grand Budapest
    Hotel=Anderson; Whiplash=Chazelle
    """,
)
directors = lookup(
    "directors",
    FILMS,
    ("Who directed {}?", "Who is the director of {}?", "Name the director of {}."),
    rivalry=False,
    times=2,
)

MUSIC = (
    """
    Thriller=Michael Jackson/Jackson; Yesterday=Beatles; Bohemian Rhapsody=Queen; Hey
    Jude=Beatles; Dancing Queen=ABBA; Imagine=Lennon; Let It Be=Beatles; Billie Jean=Jackson;
    Like a Virgin=Madonna; We Will Rock You=Queen; Jailhouse Rock=Elvis/Presley; Hello, the hit
    of 2015=Adele
    """,
    """
    Smells Like Teen Spirit=Nirvana; Stairway to Heaven=Led Zeppelin; Hotel California=Eagles;
    Purple Rain=Prince; Wonderwall=Oasis; Satisfaction=Rolling Stones/Stones; No Woman No
    Cry=Marley; Rolling in the Deep=Adele; Single Ladies=Beyoncé/Beyonce; Bad Romance=Gaga;
    Space Oddity=Bowie; Waterloo= ABBA; Shake It Off=Swift; Viva la Vida=Coldplay; Blowin' in
    the Wind=Dylan; Losing My Religion= R.E.M./REM; With or Without You=U2; Another Brick in the
    Wall=Pink Floyd; Umbrella=Rihanna; Shape of You=Sheeran
    """,
    """
    Paranoid Android=Radiohead; Blue Monday=New Order; Enjoy the Silence=Depeche Mode; Sultans
    of Swing=Dire Straits; Take On Me=a-ha/aha; Heroes=Bowie; Running Up That Hill=Kate
    Bush/Bush; Roxanne= Police; London Calling=Clash; Whole Lotta Love=Led Zeppelin;
    Superstition=Stevie Wonder/Wonder; What's Going On=Gaye; Respect, the hit of
    1967=Aretha/Franklin; Graceland=Simon; Thunderstruck=AC DC/ACDC; Enter Sandman=Metallica;
    Comfortably Numb=Pink Floyd; God Save the Queen, the punk song=Sex Pistols; Born to
    Run=Springsteen; Toxic=Britney/Spears; Love Will Tear Us Apart=Joy Division
    """,
)
songs = lookup(
    "songs",
    MUSIC,
    (
        "Who sang or played {}?",
        "Which artist or band is known for the song {}?",
        "Whose song is {}?",
    ),
    rivalry=False,
    times=2,
)

GODS = (
    """
    Greek god of the sea=Poseidon; king of the Greek gods=Zeus; Greek goddess of love=Aphrodite;
    Roman god of war=Mars; Norse god of thunder=Thor; Greek god of the underworld=Hades;
    Egyptian god of the sun=Ra/Re; Roman goddess of love=Venus; Greek hero of the twelve
    labours=Heracles/Hercules
    """,
    """
    Greek goddess of wisdom=Athena; Roman king of the gods=Jupiter/Jove; Greek god of war=Ares;
    Greek god of wine=Dionysus; Roman god of the sea=Neptune; Norse god with one eye, father of
    Thor=Odin; Greek goddess of the hunt=Artemis; Greek messenger of the gods=Hermes; wife of
    Zeus=Hera; Greek god of fire and smiths=Hephaestus; Roman god of wine=Bacchus; man who flew
    too close to the sun=Icarus; woman who opened the jar of evils=Pandora; hero with the weak
    heel=Achilles; Norse trickster god=Loki; Egyptian god with the head of a jackal=Anubis;
    monster with snakes for hair=Medusa
    """,
    """
    Greek goddess of the harvest=Demeter; Roman goddess of the hunt=Diana; Greek goddess of
    victory=Nike; Roman messenger of the gods=Mercury; Greek god of sleep=Hypnos; Roman goddess
    of the hearth=Vesta; Hindu god with the head of an elephant=Ganesha/Ganesh; Aztec feathered
    serpent= Quetzalcoatl; Egyptian goddess with the head of a lioness=Sekhmet; Egyptian god of
    writing with the head of an ibis=Thoth; ferryman of the dead in Greek myth=Charon; wife of
    Odysseus=Penelope; three-headed dog of the underworld=Cerberus; Norse goddess of
    love=Freyja/Freya; Roman goddess of the dawn= Aurora; titan who carries the sky=Atlas; king
    who turned all to gold=Midas; Greek muse of history=Clio
    """,
)
gods = lookup(
    "gods",
    GODS,
    ("Who is the {}?", "What is the name of the {}?"),
    rivalry=False,
    times=2,
)

# -- nature, food, sport ---------------------------------------------------------------------------

BODY = (
    """
    What do we see with?=eye/eyes; What do we hear with?=ear/ears; How many fingers are on one
    hand?=five/5; What covers the human body?=skin; What do we chew with?=teeth/tooth; What
    liquid flows through the veins?=blood; What organ do we breathe with?=lung/lungs; What joint
    is in the middle of the leg?=knee
    """,
    """
    What organ filters the blood and makes urine?=kidney/kidneys; What organ digests food with
    acid?=stomach; What bone protects the brain?=skull/cranium; How many chambers does the human
    heart have?=four/4; What joint connects the hand and the arm?=wrist; What do the lungs take
    from the air?=oxygen; What vitamin is in oranges?=vitamin C/C; What is the longest bone of
    the human body?=femur/thigh; What organ makes insulin?=pancreas; What do we call the doctor
    for children?=pediatrician/paediatrician; What do we call the doctor for the
    skin?=dermatologist; What is the coloured part of the eye?=iris; What is the medical word
    for high blood pressure?=hypertension; What connects muscles to bones?=tendon/tendons; What
    joint is in the middle of the arm?=elbow; What mineral do bones need most?=calcium
    """,
    """
    How many bones does an adult human have?=206; How many teeth does an adult have with the
    wisdom teeth?=32; What connects bones to bones?=ligament/ligaments; What gland lies at the
    base of the brain?=pituitary; What is the largest artery?=aorta; What is the medical word
    for the kneecap?=patella; What is the medical word for the collarbone?=clavicle; What is the
    medical word for the shoulder blade?=scapula; Which vitamin helps the blood to clot?=vitamin
    K/K; Which disease comes from a lack of vitamin C?=scurvy; What do we call the doctor for
    the eyes?=ophthalmologist/ optometrist; What do we call the doctor for the
    heart?=cardiologist; Which part of the ear is shaped like a snail?=cochlea; Which hormone
    makes us sleepy?=melatonin; What protein carries oxygen in the
    blood?=haemoglobin/hemoglobin; What protein are hair and nails made of?=keratin; What is the
    medical word for short-sightedness?=myopia/nearsightedness; How many pairs of ribs does a
    human have?=12/twelve; Which blood vessels bring blood back to the heart?=vein/veins; What
    is the thinnest blood vessel called?=capillary/capillaries
    """,
)
body = lookup("body", BODY, ("{}",), rivalry=False)

CREATURES = (
    """
    What is a group of wolves called?=pack; What is a group of fish called?=school/shoal; What
    is a group of sheep called?=flock/herd; What do pandas eat?=bamboo; What do spiders
    spin?=web/webs/silk; What is the tallest animal?=giraffe; Which animal is called the king of
    the jungle?=lion; Which bird is the symbol of peace?=dove; What is a female horse
    called?=mare; What does a bee collect from flowers?=nectar/pollen; What is a home of bees
    called?=hive/beehive; Which animal has a trunk?= elephant; Which animal has a pouch and
    hops?=kangaroo
    """,
    """
    What is a group of lions called?=pride; What is a male chicken called?=rooster/cock; What is
    a female lion called?=lioness; What is a male cow called?=bull; What is a female pig
    called?=sow; What is a male duck called?=drake; What is a female deer called?=doe/hind; What
    is a home of a bear called?=den/lair; What is a home of an eagle called?=nest/eyrie/aerie;
    What is a group of whales called?=pod; Which is the largest bird?=ostrich; Which bird cannot
    fly and lives in Antarctica?= penguin; Which mammal can fly?=bat; What is the largest land
    animal?=elephant; Which animal changes its colour to hide?=chameleon/octopus/cuttlefish;
    Which insect gives light at night?=firefly/ fireflies/glow worm; Which animal builds
    dams?=beaver; How many legs does an octopus have?=eight/8; What do koalas eat?=eucalyptus;
    What is the slowest mammal, which hangs in trees?=sloth
    """,
    """
    What is a group of crows called?=murder; What is a group of owls called?=parliament; What is
    a male swan called?=cob; What is a female swan called?=pen; What is a female fox
    called?=vixen; What is a male sheep called?=ram/tup; What is a castrated horse
    called?=gelding; What is a home of a badger called?=sett/set; What is a home of an otter
    called?=holt/couch; What is a home of a hare called?=form; What is a group of geese on the
    ground called?=gaggle; What is a group of kangaroos called?=mob/troop; What is a group of
    larks called?=exaltation; How many hearts does an octopus have?=three/3; What is the fastest
    bird in a dive?=peregrine falcon/peregrine; Which mammal lays eggs and has a bill like a
    duck?=platypus; Which is the only snake that builds nests?=king cobra; What is the largest
    fish?=whale shark; What is the smallest bird?=bee hummingbird/hummingbird; What is a male
    goose called?=gander; What is a young eel called?=elver; What is the young of a platypus
    often called?=puggle; What is a female donkey called?=jenny/jennet; What is the offspring of
    a male donkey and a mare?=mule
    """,
)
creatures = lookup("creatures", CREATURES, ("{}",), rivalry=False)

FOOD = (
    """
    Which country is sushi from?=Japan; Which country is pizza from?=Italy; Which country are
    tacos from?=Mexico; Which country is paella from?=Spain; Which country are croissants best
    known from?=France/Austria; What is bread made from?=flour/wheat; What is cheese made
    from?=milk; What is wine made from?=grapes/grape; What fruit is used for
    cider?=apple/apples; What is chocolate made from?=cocoa/cacao; What is butter made
    from?=cream/milk; What are chips or fries made from?= potato/potatoes; What is raisin a
    dried form of?=grape/grapes
    """,
    """
    Which country is goulash from?=Hungary; Which country is kimchi from?=Korea; Which country
    is moussaka best known from?=Greece; Which country is fondue from?=Switzerland/France; Which
    country is borscht best known from?=Ukraine/Russia; Which country is feta from?=Greece;
    Which country is pho from?=Vietnam; Which country is haggis from?=Scotland; Which country is
    gouda from?=Netherlands/ Holland; What is the main ingredient of hummus?=chickpeas/chickpea;
    What is the main ingredient of guacamole?=avocado/avocados; What is tofu made
    from?=soy/soya/soybeans/soybean; What nut is in marzipan?=almond/almonds; What is prune a
    dried form of?=plum/plums; What gives curry its yellow colour?=turmeric; Which herb is in
    pesto?=basil; What is rum made from?=sugarcane/sugar cane/ molasses; What is sauerkraut made
    from?=cabbage; Which country is Parmesan from?=Italy
    """,
    """
    Which country is ceviche best known from?=Peru; Which country is pierogi
    from?=Poland/Ukraine; Which country is poutine from?=Canada; Which country is injera best
    known from?=Ethiopia/Eritrea; Which country is rendang from?=Indonesia; Which country is
    lutefisk from?=Norway/Sweden/Finland; Which country is feijoada best known
    from?=Brazil/Portugal; Which country is nasi lemak from?=Malaysia; Which country is
    smørrebrød from?=Denmark; Which country is khachapuri from?=Georgia; Which country is
    Manchego from?=Spain; What is the main ingredient of baba ganoush?=eggplant/aubergine; What
    is tahini made from?=sesame; What is sake made from?=rice; What is tequila made from?=agave;
    What is polenta made from?=corn/maize/cornmeal; Which fish gives caviar?=sturgeon; What is
    the most expensive spice by weight?=saffron; Which nut is used for a Bakewell
    tart?=almond/almonds; What is tempeh made from?=soy/soya/soybeans/soybean; Which cheese is
    in a classic tiramisu?=mascarpone; What is the pickled flower bud in a tartare
    sauce?=caper/capers; Which grain is used for a risotto?=rice
    """,
)
food = lookup("food", FOOD, ("{}",), rivalry=False)

SPORTS = (
    """
    Which sport is played at Wimbledon?=tennis; Which sport uses a puck?=hockey; How many
    players of one team are on the field in football (soccer)?=11/eleven; How many players of
    one team are on the court in basketball?=five/5; Which sport did Michael Jordan
    play?=basketball; Which sport did Pelé play?=football/soccer; Which sport does Roger Federer
    play?=tennis; Which sport uses a shuttlecock?= badminton; Which sport did Muhammad Ali
    do?=boxing; In which sport do you score a home run?= baseball; In which sport do you score a
    touchdown?=American football/football
    """,
    """
    How many rings are on the Olympic flag?=five/5; Which sport is the Tour de
    France?=cycling/bicycle/ bike; In which sport do you score a hole in one?=golf; How many
    players of one team are on the field in baseball?=nine/9; Which sport did Michael Phelps
    do?=swimming/swimmer; Which sport did Usain Bolt
    do?=running/sprinting/sprint/athletics/track/sprinter; Which sport does Tiger Woods
    play?=golf; Which sport did Michael Schumacher do?=Formula 1/Formula One/F1/racing; How many
    minutes does a football (soccer) match last?=90/ninety; How many points is a free throw in
    basketball?=one/1; Which sport has a wicket?=cricket; In which sport do you use a
    cue?=billiards/snooker/pool; How many holes does a golf course usually have?=18/eighteen;
    Which country won the football World Cup in 2018?=France; Which colour is the jersey of the
    leader of the Tour de France?=yellow; Which martial art comes from Japan and means the
    gentle way?=judo; How many players of one team are on the court in volleyball?=six/6; How
    often are the Summer Olympics held, in years?=four/4
    """,
    """
    How many players of one team are in a rugby union side?=15/fifteen; How many players of one
    team are on the ice in ice hockey, goalkeeper included?=six/6; How many players has a
    handball team on the court?=seven/7; Which country won the football World Cup in
    2010?=Spain; Which country won the football World Cup in 2014?=Germany; Which city hosted
    the Summer Olympics in 2012?=London; Which city hosted the Summer Olympics in 2016?=Rio;
    Which city hosted the Summer Olympics in 2000?=Sydney; Which city hosted the Summer Olympics
    in 1992?=Barcelona; Which country won the first football World Cup in 1930?=Uruguay; How
    many kilometres is a marathon, without the rest?=42; Which sport takes place in a
    velodrome?=cycling/bicycle/bike; How many events has a decathlon?=10/ten; How many events
    has a heptathlon?=seven/7; What is a score of zero in tennis called?=love; What is one under
    par in golf called?=birdie; What is two under par in golf called?=eagle; What is three
    strikes in a row in bowling called?=turkey; How many points is a try worth in rugby
    union?=five/5; What is the highest break in snooker?=147; Which country does the sport of
    curling come from?=Scotland; In which sport is the Ryder Cup?=golf; In which sport is the
    Davis Cup?=tennis; In which sport is the Stanley Cup?=ice hockey/hockey
    """,
)
sports = lookup("sports", SPORTS, ("{}",), rivalry=False)

SKY = """
Which planet has the famous rings?=Saturn; Which planet is the hottest?=Venus; Which planet is
the third from the sun?=Earth; Which planet is the farthest from the sun?=Neptune; How many
planets has the solar system?=eight/8; Which planet lies on its side?=Uranus; How many moons
does Mars have?=two/2; What is the name of the galaxy we live in?=Milky Way; Which planet is the
smallest?=Mercury; Which planet has the Great Red Spot?=Jupiter; Which moon is the largest in
the solar system?=Ganymede; Which planet has the moon Titan?=Saturn; Which planet has the moon
Europa?=Jupiter; Which planet has the moon Triton?= Neptune; What do we call a rock from space
that reaches the ground?=meteorite; What do we call it when the moon covers the sun?=solar
eclipse/eclipse; Which star is nearest to the Earth?=sun; Which star is nearest to the
sun?=Proxima/Alpha Centauri; Who was the first woman in space?=Tereshkova; Which dog was the
first animal to orbit the Earth?=Laika; Which space probe took the photograph Pale Blue Dot?=
Voyager; In which year did Apollo 11 land on the moon?=1969; Which dwarf planet was the ninth
planet until 2006?=Pluto; Which planet spins in the opposite direction to most and is close to
us?=Venus; What is the force that keeps planets in orbit?=gravity; How long does light from the
sun take to reach us, in minutes?=eight/8; What is the layer of gas around a planet
called?=atmosphere; How many days does the moon take to go around the Earth, about?=27/28/29;
Which telescope was launched in 1990?=Hubble; Which rover landed on Mars in 2021?=Perseverance;
What is the brightest star in the night sky?=Sirius; In which constellation is the star
Betelgeuse?=Orion; Which planet is called the morning star?=Venus; What is the path of a planet
around the sun called?=orbit; What comes back about every 76 years?=Halley
"""
sky = lookup("sky", (SKY,), ("{}",), rivalry=False)

# -- machines, symbols and words for things --------------------------------------------------------

COMPUTING = """
What does the keyboard shortcut Ctrl+C do?=copy/copies; What does the keyboard shortcut Ctrl+V
do?=paste/ pastes; What does the keyboard shortcut Ctrl+Z do?=undo/undoes; What does the
keyboard shortcut Ctrl+S do?=save/saves; What does the keyboard shortcut Ctrl+F
do?=find/search/searches; What does the keyboard shortcut Ctrl+X do?=cut/cuts; What does the
keyboard shortcut Ctrl+P do?=print/prints; What does the keyboard shortcut Alt+F4 do on
Windows?=close/closes; Which port does HTTPS use by default?=443; Which port does HTTP use by
default?=80; Which port does SSH use by default?=22; Which port does PostgreSQL use by
default?=5432; Which port does MySQL use by default?=3306; Which port does DNS use?=53; Which
port does Redis use by default?=6379; What is the file extension of a Python script?=py; What is
the file extension of a Word document today?=docx; What is the file extension of an Excel
workbook today?=xlsx; What does the file extension .mp3 hold: sound, pictures or
text?=sound/audio/music; How many bits are in a byte?= eight/8; How many bytes are in a
kibibyte?=1024; What HTTP status code means not found?=404; What HTTP status code means OK?=200;
What HTTP status code means forbidden?=403; What HTTP status code means internal server
error?=500; What HTTP status code means too many requests?=429; What HTTP status code means
moved permanently?=301; What HTTP status code means created?=201; What HTTP status code means
unauthorized?=401; What HTTP status code means service unavailable?=503; What number system uses
only 0 and 1?=binary; What number system has the base 16?=hexadecimal/hex; What does RAM stand
for? Name the second word.=access; What is the main circuit board of a computer
called?=motherboard/mainboard; What do we call software that harms a computer?=malware/virus;
What do we call a fake e-mail that wants your password?=phishing; What protocol sends e-mail
between servers?=SMTP; What protocol gives a computer its IP address automatically?=DHCP; How
many bits has an IPv4 address?=32; How many bits has an IPv6 address?=128; Which company makes
the Windows operating system?=Microsoft; Which data structure works last in, first out?=stack;
Which data structure works first in, first out?=queue; Which sorting method has the average time
n log n: bubble sort or quicksort?=quicksort; Which command line tool shows the network route to
a host on Linux?=traceroute/ tracepath/mtr; Which key deletes the character left of the
cursor?=backspace; Which organisation makes the standards of HTML?=W3C/WHATWG; Which port does
SMTP use by default?=25; Which port does MongoDB use by default?=27017
"""
computing = lookup("computing", (COMPUTING,), ("{}",), rivalry=False)

# Without those that are English words, such as .it and .no: any sentence would name them.
DOMAINS = """
Germany=de; France=fr; Spain=es; the United Kingdom=uk; Japan=jp; China=cn; Russia=ru; Canada=
ca; Australia=au; Switzerland=ch; Poland=pl; Sweden=se; Denmark=dk; Finland=fi; the
Netherlands=nl; Portugal=pt; Greece=gr; Brazil=br; Mexico=mx; South Korea=kr; South Africa=za;
New Zealand=nz; Ireland=ie; Estonia=ee; Croatia=hr; Ukraine=ua; Turkey=tr; Argentina=ar;
Chile=cl; Hungary=hu; the Czech Republic=cz; Tuvalu=tv; the European Union=eu; Vietnam=vn
"""
domains = lookup(
    "domains",
    (DOMAINS,),
    (
        "What is the internet country domain of {}?",
        "Websites of {} end in which two letters?",
        "What is the top-level domain of {}?",
    ),
    rivalry=False,
    times=3,
)

PHONES = """
the United States=1; Germany=49; France=33; Italy=39; Spain=34; the United Kingdom=44; Japan=81;
China=86; Russia=7; India=91; Brazil=55; Mexico=52; Australia=61; Switzerland=41; Austria=43;
Poland=48; Sweden=46; Norway=47; Denmark=45; the Netherlands=31; Belgium=32; Greece=30; South
Korea=82; South Africa=27; Turkey=90; Egypt=20; Argentina=54; Portugal=351; Ireland=353;
Finland=358; Ukraine=380; Israel=972; New Zealand=64; Thailand=66; Singapore=65; Hungary=36;
Romania=40; Vietnam=84; Pakistan=92; Nigeria=234; Kenya=254; Iceland=354; the Czech Republic=420
"""
phone_codes = lookup(
    "phone_codes",
    (PHONES,),
    ("What is the international calling code of {}?", "Which country code do I dial to call {}?"),
    rivalry=False,
    times=2,
)

STUDIES = (
    """
    animals=zoology; plants=botany; the mind=psychology; stars and planets=astronomy; the
    past=history; numbers=mathematics/arithmetic/math/maths; the Earth's rocks=geology;
    life=biology; the weather= meteorology; languages=linguistics; human society=sociology;
    money and markets=economics
    """,
    """
    insects=entomology; birds=ornithology; fossils=paleontology/palaeontology;
    earthquakes=seismology; volcanoes=volcanology/vulcanology; old civilisations from what they
    left in the ground=archaeology/ archeology; diseases=pathology; the heart=cardiology; the
    skin=dermatology; poisons=toxicology; maps=cartography; the origin of words=etymology;
    cells=cytology; heredity=genetics; crimes= criminology; the nervous system=neurology; the
    oceans=oceanography
    """,
    """
    fish=ichthyology; reptiles and amphibians=herpetology; coins=numismatics; stamps=philately;
    handwriting= graphology; flags=vexillology; trees by their rings=dendrochronology;
    caves=speleology; ageing= gerontology; mushrooms and other fungi=mycology; the
    blood=haematology/hematology; bones=osteology; tissues=histology; snow and ice=glaciology;
    algae=phycology; dogs=cynology; wine=oenology/enology; mosses=bryology; seeds and pollen of
    the past=palynology; knowledge itself=epistemology
    """,
)
studies = lookup(
    "studies",
    STUDIES,
    ("What is the study of {} called?", "Which science deals with {}?", "Name the study of {}."),
    rivalry=False,
    times=2,
)

MEASURES = (
    """
    temperature=thermometer; time=clock/watch/stopwatch; weight=scale/scales/balance;
    length=ruler/tape/ tape measure/measuring tape; direction to the north=compass; the speed of
    a car=speedometer
    """,
    """
    air pressure=barometer; the speed of the wind=anemometer;
    earthquakes=seismograph/seismometer; the humidity of the air=hygrometer; distant
    stars=telescope; tiny things=microscope; electric current= ammeter; voltage=voltmeter;
    angles on paper=protractor; the distance a car has driven=odometer; rain= rain
    gauge/gauge/pluviometer; radioactivity=Geiger; height above sea level=altimeter; blood
    pressure= sphygmomanometer/blood pressure monitor/cuff
    """,
    """
    the density of liquids=hydrometer/densimeter; very small lengths with a screw=micrometer;
    the angle of stars above the horizon at sea=sextant; light intensity=photometer/light
    meter/lux meter/radiometer; acceleration=accelerometer; the focal power of the
    eye=optometer/phoropter/refractometer/autorefractor; the sugar in the
    blood=glucometer/glucose meter; the volume of breath=spirometer; heat of a reaction=
    calorimeter; the rate of turning of an engine=tachometer; the electrical activity of the
    heart= electrocardiograph/electrocardiogram/ECG/EKG; the electrical activity of the brain=
    electroencephalograph/electroencephalogram/EEG; oxygen in the blood at a finger=oximeter;
    magnetic fields=magnetometer/gaussmeter; the depth of water with sound=sonar/echo sounder
    """,
)
measuring = lookup(
    "measuring",
    MEASURES,
    (
        "Which instrument measures or shows {}?",
        "What tool do you use to measure or see {}?",
        "Name the instrument for {}.",
    ),
    rivalry=False,
    times=3,
)

SI_UNITS = """
force=newton/newtons/N; energy=joule/joules/J; power=watt/watts/W; electric
current=ampere/amperes/amp/A; voltage=volt/volts/V; electrical resistance=ohm/ohms;
frequency=hertz/Hz; pressure=pascal/pascals/Pa; temperature=kelvin/K;
mass=kilogram/kilograms/kg; length=metre/metres/meter/meters/m; time=second/seconds/s; amount of
substance=mole/moles/mol; luminous intensity=candela/cd; electric charge=coulomb/coulombs/C;
capacitance=farad/farads/F; inductance=henry/henries/H; magnetic flux density=tesla/teslas/T;
magnetic flux=weber/webers/Wb; radioactivity=becquerel/becquerels/Bq; illuminance=lux;
conductance=siemens/S; absorbed radiation dose=gray/grays/Gy; plane angle=radian/radians/rad;
luminous flux=lumen/lumens
"""
si_units = lookup(
    "si_units",
    (SI_UNITS,),
    (
        "What is the SI unit of {}?",
        "In which SI unit is {} measured?",
        "Name the unit of {} in the International System.",
    ),
    rivalry=False,
    times=3,
)

HOLIDAYS = """
Christmas Day=December; New Year's Day=January; Valentine's Day=February; Halloween=October;
Saint Patrick's Day=March; Independence Day in the United States=July; Thanksgiving in the
United States= November; April Fools' Day=April; Labour Day in most of Europe=May; Bastille Day
in France=July; the Day of German Unity=October; Boxing Day=December; International Women's
Day=March; Earth Day=April; Guy Fawkes Night=November; the Day of the Dead in Mexico=November;
Memorial Day in the United States=May; Labor Day in the United States=September; Canada
Day=July; Australia Day=January; Columbus Day=October; Martin Luther King Day=January;
Remembrance Day=November; Groundhog Day=February; Burns Night in Scotland= January; Saint
Nicholas Day=December; the summer solstice in Europe=June; the winter solstice in Europe=
December; Juneteenth=June; the national day of Norway=May; the national day of
Switzerland=August; the national day of Italy, the Festa della Repubblica=June; Saint Lucia's
Day in Sweden=December; Anzac Day=April; Pi Day=March; Black Friday=November; the start of the
school year in Russia=September
"""
holidays = lookup(
    "holidays",
    (HOLIDAYS,),
    ("In which month is {}?", "What month is {} in?", "Which month does {} fall in?"),
    times=3,
)

ATOMIC = """
hydrogen=1; helium=2; lithium=3; carbon=6; nitrogen=7; oxygen=8; fluorine=9; neon=10; sodium=11;
magnesium= 12; aluminium=13; silicon=14; phosphorus=15; sulfur=16; chlorine=17; argon=18;
potassium=19; calcium=20; titanium=22; chromium=24; manganese=25; iron=26; cobalt=27; nickel=28;
copper=29; zinc=30; arsenic=33; bromine=35; krypton=36; silver=47; tin=50; iodine=53; xenon=54;
caesium=55; barium=56; tungsten=74; platinum=78; gold=79; mercury=80; lead=82; radon=86;
radium=88; uranium=92; plutonium=94
"""
atomic_numbers = lookup(
    "atomic_numbers",
    (ATOMIC,),
    (
        "What is the atomic number of {}?",
        "How many protons does an atom of {} have?",
        "Which atomic number does {} have?",
    ),
    rivalry=False,
    rule="number",
    times=3,
)

KINDS: dict[str, tuple[Kind, ...]] = {
    "places": (city_countries, landmarks, nature, state_capitals, peoples),
    "people": (founders, directors, songs, gods),
    "science": (body, creatures, sky, studies, measuring, si_units, atomic_numbers),
    "everyday facts": (food, sports, computing, domains, phone_codes, holidays),
}
