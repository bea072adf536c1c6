"""Two answers to one question, and whether they say the same: to set the judge by meaning.

We wrote them. Different answers are about the same thing, as those of two models are: one fact
is changed, something is denied, or the question is missed.
"""

from __future__ import annotations

from dataclasses import dataclass

# Question; an answer; another that says the same; one that does not.
_BLOCKS = """
Why is the sky blue?
Air scatters blue light more than red light, so blue reaches our eyes from all directions.
Shorter wavelengths such as blue are scattered most by molecules of air, so we see a blue sky.
The sky is blue because it reflects the colour of the oceans.

How do vaccines work?
They show the immune system a harmless part of a germ, so that it can fight the real one later.
A vaccine trains the body's defences with a weakened germ, preparing them for a true infection.
Vaccines kill the bacteria and viruses that are already in the blood.

Why do leaves change colour in autumn?
The green chlorophyll breaks down and yellow and orange pigments that were hidden become visible.
As chlorophyll fades, other pigments in the leaf, such as carotenoids, can be seen.
The cold freezes the green pigment and turns it red.

Should I water my cactus every day?
No, a cactus needs water only every few weeks; daily watering rots its roots.
You should not: let the soil dry out completely and water it rarely.
Yes, give your cactus a little water each day so that it does not dry out.

What is a good way to fall asleep faster?
Keep the room dark and cool, and put screens away an hour before bed.
Avoid phones in the last hour, dim the lights and lower the temperature of the bedroom.
Drink a cup of strong coffee and watch a film in bed.

What does the verb 'postpone' mean?
To put something off until a later time.
It means to delay an event so that it happens later than planned.
It means to cancel something for good.

How can I reset my password?
Click 'Forgot password' on the login page and follow the link in the email.
Use the forgotten-password link where you sign in; an email will take you through it.
Call your bank and ask them to send you a new card.

What is the difference between weather and climate?
Weather is what happens today; climate is the average over many years.
Climate describes long-term averages, whereas weather is short-term.
Climate is what happens today, and weather is the average over many years.

Is it safe to eat raw chicken?
No, raw chicken can carry salmonella and must be cooked through.
It is not safe: uncooked chicken may contain harmful bacteria.
Yes, raw chicken is safe as long as it is fresh.

Summarise: The meeting was moved from Monday to Wednesday because the room was taken.
The meeting is now on Wednesday, as the room was not free on Monday.
Because the room was occupied, the Monday meeting will take place on Wednesday.
The meeting was moved from Wednesday to Monday because the room was free.

How does a refrigerator keep food cold?
A fluid evaporates inside and takes up heat, which is released outside when it is compressed.
It pumps heat out: a refrigerant absorbs it within the cabinet and gives it off at the back.
It blows air over blocks of ice that are refilled every week.

Why do we have leap years?
A year is about 365 and a quarter days, so an extra day every four years keeps the calendar in step.
Because the Earth takes roughly 365.25 days to go round the Sun, a day is added every fourth year.
Because the Moon takes 366 days to circle the Earth every fourth year.

What should I do if my phone falls into water?
Take it out, switch it off at once, dry it and do not charge it until it is dry.
Remove it quickly, power it down, let it dry fully, and wait before charging.
Plug it into the charger right away so that the heat dries it.

What is photosynthesis?
Plants use sunlight to turn water and carbon dioxide into sugar and oxygen.
It is how plants make sugar and oxygen from carbon dioxide and water with the energy of light.
It is how plants turn sugar and oxygen into carbon dioxide and water at night.

Can dogs eat chocolate?
No, chocolate contains theobromine, which is poisonous to dogs.
Dogs must not have chocolate; the theobromine in it is toxic for them.
A little dark chocolate is good for dogs and makes their coat shine.

What causes tides?
Mainly the gravity of the Moon, and to a lesser degree that of the Sun.
The pull of the Moon and, less strongly, of the Sun on the oceans.
Mainly the wind, and to a lesser degree the rotation of the Earth.

Write a polite refusal of an invitation.
Thank you so much for inviting me, but I am afraid I cannot come.
I appreciate the kind invitation; unfortunately I will not be able to attend.
Thank you so much for inviting me, I will gladly come.

How is cheese made?
Milk is curdled with rennet or acid, the whey is drained, and the curds are pressed and aged.
Curdle the milk, separate curds from whey, then press and ripen them.
Cream is churned until the fat separates from the buttermilk.

Why do onions make you cry?
Cutting them releases a gas that forms an acid in the eyes, and tears wash it away.
A sulphurous gas escapes from the cut cells and irritates the eyes, which water in response.
Their smell reminds the brain of sad memories.

What is inflation?
A general rise of prices, so that money buys less than before.
It means that prices go up across the economy and purchasing power falls.
A general fall of prices, so that money buys more than before.

How do I get to the station?
Go straight on, take the second street on the left, and it is on your right.
Straight ahead, then left at the second street; you will find the station on the right-hand side.
Go straight on, take the second street on the right, and it is on your left.

What is a black hole?
A region where gravity is so strong that not even light can escape.
It is a place in space whose gravity lets nothing out, light included.
A black hole is a dark cloud of dust between the stars.

Which is better for a beginner, Python or C++?
Python, because its syntax is simpler and it forgives more.
I would recommend Python: it is easier to read and to learn first.
C++, because it teaches how memory works from the start.

Why does bread rise?
Yeast eats sugar and gives off carbon dioxide, which is trapped in the dough.
Gas from the yeast's fermentation is caught by the gluten and puffs up the dough.
The salt in the dough swells when it is heated.

How long should I boil an egg?
About six minutes for a soft yolk, ten for a hard one.
Soft-boiled takes around six minutes, hard-boiled about ten.
About two minutes for a soft yolk, thirty for a hard one.

What happens when ice melts?
It turns from solid to liquid water at zero degrees as it takes up heat.
Heat makes the solid become liquid at 0 degrees Celsius.
It turns from liquid to solid as it gives off heat.

Is the earth flat?
No, it is very nearly a sphere.
It is not; our planet is round, slightly flattened at the poles.
Yes, it is flat.

Explain what a mortgage is.
A loan to buy a home, secured on the home itself.
Money borrowed to purchase property, with the property as security for the lender.
An insurance that pays when a home burns down.

What does a software engineer do?
Designs, writes, tests and maintains programs.
They plan and build software, test it and keep it working.
Sells computers and repairs printers in a shop.

Why do cats purr?
Mostly when content, but also to calm themselves when hurt or afraid.
It often shows contentment, though cats purr under stress or pain to soothe themselves as well.
Only when they are hungry and want to frighten other cats away.
"""


@dataclass(frozen=True, slots=True)
class Pair:
    """`same`: a reader who needs the answer would do the same with either."""

    question: str
    one: str
    other: str
    same: bool


def pairs() -> list[Pair]:
    """Every question has a pair that says the same and one that does not."""
    found = []
    for block in _BLOCKS.strip().split("\n\n"):
        question, one, same, different = block.split("\n")
        found += [Pair(question, one, same, True), Pair(question, one, different, False)]
    return found
