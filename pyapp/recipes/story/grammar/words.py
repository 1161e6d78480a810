"""The words of the stories: names, animals, things, and the turns of phrase that many plots share.

The words are plain. A value may hold alternatives "{a|b}" and slots "[name]"; see stories.py.
"""

from __future__ import annotations

# The first names of a list are given more often than the last, as among people. A small model learns to keep to a name
# much sooner when some are common.
GIRLS = "Lily Mia Anna Lucy Emma Zoe Rosie Nora Sue Molly Kate Clara Ivy Ella".split()
BOYS = "Tom Ben Max Sam Leo Tim Jack Finn Noah Oscar Billy Toby Luke Theo".split()
# Animals have other names than children, so that a name tells what its hero is.
SHE_ANIMALS = "Hazel Coco Clover Tilly Poppy Honey Ginger Maple Dot Penny".split()
HE_ANIMALS = "Pip Bobo Fuzzy Biscuit Bramble Button Teddy Pickle Rusty Moss".split()
PETS = "Spot Rex Buddy Socks Fluffy Patch Snowy Pepper Mittens Whiskers".split()

# species: (home, food)
ANIMALS = {
    "rabbit": ("in a warm hole under a green hill", "carrots"),
    "bear": ("in a cave near the river", "honey cakes"),
    "fox": ("in a den under a big rock", "berries"),
    "mouse": ("in a tiny house behind a stone wall", "bread crumbs"),
    "squirrel": ("high up in an old oak tree", "nuts"),
    "duck": ("by a quiet pond", "seeds"),
    "hedgehog": ("under a pile of dry leaves", "apples"),
    "owl": ("in a hollow tree", "plums"),
    "frog": ("on a wet log by the pond", "blueberries"),
    "turtle": ("near a slow river", "green beans"),
    "pig": ("on a little farm", "potatoes"),
    "goat": ("on a farm near the hills", "turnips"),
    "beaver": ("in a house made of sticks", "green leaves"),
    "deer": ("at the edge of the forest", "clover flowers"),
    "cat": ("in an old barn", "fish"),
    "dog": ("in a little house next to the barn", "bones"),
    "dragon": ("in a cave high up in the mountains", "hot soup"),
    "badger": ("in a long tunnel under the field", "mushrooms"),
}

FAMILY = {"Mom": "she", "Dad": "he", "Grandma": "she", "Grandpa": "he"}

TRAITS = "kind happy clever curious cheerful funny gentle friendly quiet brave playful polite lively".split()
COLORS = "red blue green yellow orange purple pink white brown black".split()
TOYS = (
    "ball|doll|teddy bear|toy car|toy train|drum|toy robot|toy boat|toy truck|puppet|toy dinosaur|toy rabbit|whistle|"
    "toy horse|toy plane|bucket"
).split("|")
FRUITS = "apple pear plum peach orange banana".split()
FLOWERS = "rose|tulip|daisy|sunflower|lily".split("|")

HOMES = tuple(
    f"in a {size} {where}"
    for size in ("small", "little", "cozy", "white", "tall", "old")
    for where in (
        "house near the woods",
        "house by the sea",
        "house on a hill",
        "house at the end of the road",
        "house next to a park",
        "house by the river",
        "cottage in a quiet village",
        "house in a busy town",
    )
)
HOBBIES = (
    "draw",
    "sing",
    "dance",
    "run in the grass",
    "read books",
    "climb trees",
    "play outside",
    "look at the clouds",
    "tell jokes",
    "build towers",
    "paint",
    "count the stars",
    "jump rope",
    "play with blocks",
    "listen to stories",
    "pick flowers",
    "feed the birds",
    "make up songs",
    "dig in the sand",
    "play with friends",
    "ask questions",
    "wear funny hats",
    "collect stones",
    "watch the trains",
)

MACROS = {
    # The hero is always `a`, a child in open_child and an animal in open_animal.
    "start": "{Once upon a time, there was|Once upon a time, there was|Once there was|There once was|"
    "Long ago, there was}",
    "who": "a {little|young|[trait]|[trait] little} [a.kind] {named|named|called} [a]",
    "open_child": "{@intro_child|@intro_child|@intro_child|@intro_other}",
    "open_animal": "{@intro_animal|@intro_animal|@intro_animal|@intro_other}",
    "intro_other": "{[A] was a {little|young|[trait]|[trait] little} [a.kind].|This is the story of [a], a [trait] "
    "little [a.kind].} {[A.he] loved to [hobby].|Everybody liked [a].|[A.he] "
    "was [age] years old.}",
    "intro_child": "@start @who. {[A.he] lived [home].|[A.he] loved to [hobby].|[A] lived [home] and loved to [hobby].|"
    "[A] was [age] years old and lived [home].|[A] was [age] years old and loved to [hobby].}",
    "intro_animal": "@start @who. {[A.he] lived [a.home].|[A] lived [a.home] and loved to eat [a.food].|"
    "[A.he] loved to eat [a.food].|[A] lived [a.home] with [a.his] {mother|family|mother and father}.}",
    "day": "{One day|One day|One morning|One afternoon|One Saturday}",
    "nice_day": "One {sunny|warm|bright|beautiful} {day|morning|afternoon}",
    "sad": "{sad|unhappy|upset}",
    "glad": "{happy|glad|so happy|very happy}",
    "scared": "{afraid|scared|frightened}",
    "smile_a": "{[A] smiled.|[A] had a big smile on [a.his] face.|[A] felt warm inside.|"
    "[A.his] heart was full of joy.}",
    "sleep_a": "That night, [a] {fell asleep with a smile|slept very well|went to bed {happy|early} and "
    "{had sweet dreams|slept like a baby}}.",
    "never_forgot": "{[A] never forgot that day.|It was a day that [a] never forgot.|"
    "It was the best day of the {week|year}.|It was a {wonderful|lovely|perfect} day.}",
    "friends_ab": "{From then on|From that day on|After that}, [a] and [b] were {best|good|the best of} friends.",
}
