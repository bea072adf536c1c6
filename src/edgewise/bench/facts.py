"""Facts the calibration questions ask for, written down by the authors of edgewise.

One table per kind: `thing = answer / other accepted answer; …`. In tables with three lines the
lines go from common knowledge to the obscure.
"""

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
