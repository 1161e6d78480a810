"""Stories in the open air: kites, seeds, snow, the beach and the market."""

from __future__ import annotations

from pyapp.recipes.story.grammar.plots.plot import Plot
from pyapp.recipes.story.grammar.words import COLORS

OUTDOORS = (
    Plot(
        "kite in the tree",
        {"a": "child", "b": "child", "c": "neighbor"},
        """
        @open_child {[A.he] had a [color] kite with a long tail.|For [a.his] birthday, [a.he] got a [color] kite.}

        One windy {day|morning|afternoon}, [a] took the kite to the {park|hill|field} with [a.his] friend [b]. The kite
        {flew up, up, up|danced in the sky|went higher and higher}. "{Look how high it is|It can touch the clouds}!"
        {shouted|said} [b]. {Then|Suddenly}, a {strong|big} wind came. {It blew the kite into|The kite flew right into}
        a {tall|big} tree, and there it got stuck. "{Oh no, my kite|My poor kite}!" cried [a]. [A.he] pulled the string,
        but {the kite did not move|it was no use}.

        Just then, [c] came by with [c.his] {big|old|brown} dog. "{What is up there|Why do you look so sad}?" [c.he]
        asked. "My kite is stuck {in the tree|up there}," said [a]. "{Let me see|Hmm}," said [c]. [solution] {Down came
        the kite!|The kite came down at last.} "{You did it|Hooray}! Thank you{ so much|}!" said [a]. The kite had a
        {small|little} hole, {so [b] fixed it with some tape|but [b] had some tape}. {Then all three of them|Then they}
        flew the kite {until the sun went down|until it was time for dinner}{, far away from the trees|, far from any
        tree}.
        """,
        {
            "color": COLORS,
        },
        (
            {
                "solution": (
                    "[C.he] {went to get|came back with} a {long|tall} ladder and {climbed up slowly|went up step "
                    "by step}."
                ),
            },
            {"solution": "[C.he] found a long stick and {gave the kite a little push|pushed the kite}."},
            {"solution": "[C.he] lifted [a] up on [c.his] shoulders, and [a] {could just reach|got hold of} the tail."},
            {"solution": "[C.he] threw [c.his] dog's ball at the branch, {once, twice, three times|again and again}."},
        ),
    ),
    Plot(
        "seed",
        {"a": "child", "b": "family"},
        """
        @open_child

        One {spring day|day in spring}, [a.his] [b.kind] gave [a.him] a {tiny|small|little} [seed_color] seed. "{What is
        it|What will it be}?" asked [a]. "{Plant it and you will see|It is a secret}," said [b]. "{But you must be
        patient|You only need to wait}." [A] {dug a hole|made a little hole} in the {garden|ground} and put the seed in.
        [A.he] gave it {some water|a little water}. The next day, [a] {looked again|ran outside to look}. Still nothing!
        "{My seed does not work|It is not growing}," [a.he] said. "{Maybe I should dig it up|I want to dig it up and
        look}." "{Please don't|No, wait}," said [b]. "{Good things take time|It needs time to sleep and grow}. {Give it
        water and sun|Just give it water every day}."

        So [a] waited. [A.he] gave it water every {morning|day|evening}, and {sang to it|told it stories|talked to it}.
        Then, one {sunny|warm} morning, there was a {tiny|small} green leaf! By the end of summer, it was a [plant]!
        [result] "{You were right|Now I know}, [b]," said [a]. "{Good things take time|It was good to wait}." And [a]
        {kept|saved} {one seed|some seeds} for the next {spring|year}.
        """,
        {
            "seed_color": ("brown", "black", "white", "gray"),
        },
        (
            {
                "plant": "sunflower, taller than [b]",
                "result": "The birds came to eat the seeds, and the bees {loved it|came, too}.",
            },
            {"plant": "big round pumpkin", "result": "They made {warm soup|a sweet pie} for the whole family."},
            {
                "plant": "plant with {ten|twenty} red tomatoes",
                "result": "They were {sweet and warm from the sun|so sweet and juicy}.",
            },
            {"plant": "bush full of peas", "result": "[A] ate them {right there in the garden|with a big spoon}."},
            {
                "plant": "big plant with {pink|purple|white} flowers",
                "result": "[A] picked one flower and gave it to [b].",
            },
        ),
    ),
    Plot(
        "snowman",
        {"a": "child", "b": "child", "c": "family"},
        """
        @open_child

        One {cold|winter} morning, [a] looked out of the window. {Everything was white!|The whole world was white!}
        "{Snow! Snow|It has snowed}!" [a.he] {shouted|cried}. [A] put on [a.his] {warm coat|boots} and [a.his] [color]
        scarf and ran outside. [A.his] friend [b] was already there. "Let's {make|build} a snowman!" said [b]. They
        {rolled|made} {one big ball, one middle ball and one small ball|three big balls of snow}. {A carrot was the
        nose.|They used a carrot for the nose.|Two stones were the eyes.|They used buttons for the eyes.} "He looks
        {great|so nice}!" said [a]. "But {he looks cold|I think he is cold}," said [b]. [A] thought for a moment. Then
        [a.he] took off [a.his] scarf and {gave it to|put it on} the snowman. "{Now you will be warm|Here you are, my
        friend}," [a.he] said.

        "{Are you not cold|Are you cold}, [a]?" asked [a.his] [c.kind] when [a.he] came home. "{A little|Only a bit},"
        said [a]. "But the snowman {needed it more|was colder than me}." [C] {smiled and made|laughed and made} {hot
        chocolate|warm milk with honey} for [a] and [b]. {After some days|A week later}, the sun came out, and the
        snowman {got smaller and smaller|melted away}. [A] was a little sad. But there, on the {wet|green} grass, lay
        the scarf. "{He gave it back|Goodbye, snowman}," said [a]. "{See you next winter|We will make you again next
        winter}!"
        """,
        {
            "color": COLORS,
            "cloth": ("scarf", "hat", "cap"),
        },
    ),
    Plot(
        "picnic",
        {"a": "child", "b": "family", "c": "child"},
        """
        @open_child

        @nice_day, [a] went to the {park|lake|meadow|forest} with [a.his] [b.kind] and [a.his] friend [c]. They
        {had|brought} a big basket with bread and [food2]. "{I am so hungry|Let's eat}!" said [a]. They put a [color]
        blanket {on the grass|under a tree} and {sat down|opened the basket}. {Suddenly|Just then}, [a] saw [guest].
        "{Look|Oh, look}!" [a.he] {said|whispered}. [problem] "{Go away|Stop that}!" said [c]. But [a] {shook [a.his]
        head|thought about it}. "{I think it is only hungry, like us|It must be hungry, too}," [a.he] said. "{We have
        enough for everyone|There is a lot of food}." [A] took {a piece|a little bit} of bread and put it {on a stone|on
        a leaf} {a few steps away|near the tree}. [eat]

        "{That was a good idea|What a good idea}, [a]," said [b]. "{When you share, there is peace|Now everyone can
        eat}." They ate and {played games|told stories|looked at the clouds} until the {evening|sun went down}. When
        they packed up, [thanks] "{I think it says thank you|It wants to say thank you}," said [c], and {they all
        laughed|they all smiled}. @never_forgot
        """,
        {
            "color": COLORS,
            "food": ("bread", "cheese", "cake", "pie"),
            "food2": ("grapes", "eggs", "strawberries", "carrots", "cherries"),
        },
        (
            {
                "guest": "a {small|little} brown squirrel",
                "problem": "It jumped on the blanket and {looked into|sniffed at} the basket.",
                "eat": "The squirrel {took it in its paws|sat down} and ate it all up.",
                "thanks": "the squirrel {left a nut on the blanket|waved its tail}.",
            },
            {
                "guest": "a {fat|hungry|white} duck",
                "problem": "It walked over the blanket and {quacked|quacked very loudly}.",
                "eat": "The duck {ran to it|shook its tail} and ate it all up.",
                "thanks": "the duck {quacked three times|walked with them to the road}.",
            },
            {
                "guest": "{a little|a tiny} bird",
                "problem": "It hopped on the blanket and {looked into the basket|looked at the food}.",
                "eat": "The bird {flew over|hopped over} and ate it all up.",
                "thanks": "the bird sang {its best song|a sweet song} for them.",
            },
            {
                "guest": "a {thin|small} gray cat",
                "problem": "It {sat down on the blanket|put its paw in the basket} and {meowed|meowed softly}.",
                "eat": "The cat {licked its lips|came closer} and ate it all up.",
                "thanks": "the cat {rubbed [a]'s leg|purred loudly}.",
            },
        ),
    ),
    Plot(
        "sandcastle",
        {"a": "child", "b": "child", "c": "family"},
        """
        @open_child

        @nice_day in summer, [a] went to the beach with [a.his] [c.kind]. [A.he] took [a.his] [color] bucket and began
        to build a sandcastle. It had {two|three|four} towers and {a deep ditch|a long wall}. [A] put {shells|a
        feather|small stones} on top. "{It is the best castle in the world|It is fit for a king}!" [a.he] said. Then a
        {big|huge} wave came. Splash! {The castle was gone|It washed the castle away}. [A] {kicked the sand|sat down}
        and {began to cry|cried}. "{All my work was for nothing|I will never build again}!" [a.he] said.

        A [b.kind] with {a straw hat|curly hair|red hair} came over. "{Hello, I'm|Hi! My name is} [b]," said the new
        friend. "{I saw your castle|Your castle was great}. {Let's build a new one together|I can help you build a new
        one}." So they did, {farther from the water|higher up on the beach}. They {dug|worked} and {laughed|sang} all
        {afternoon|day}. The new castle was {even bigger|twice as big}, with a {flag|bridge|gate} made of {a stick|a
        leaf|paper}. {This time, the waves did not reach it.|The waves came close, but the castle stood.} "{I am glad|It
        is good} that the first one {broke|fell down}," said [a]. "{Why|Really}?" asked [c]. "Because now I have {a
        better castle and a friend|a new friend}," said [a] {with a big smile|happily}.
        """,
        {
            "color": COLORS,
        },
    ),
    Plot(
        "learning to do it",
        {"a": "child", "b": "family"},
        """
        @open_child There was one thing that [a] {really wanted|wanted very much}: to learn how to [skill].

        @day, [a] {asked|went to} [a.his] [b.kind]. "{Can you|Will you} {teach me|show me how to do it}, [b]?" [a.he]
        asked. "{Of course|Yes}," said [b]. "{But it takes practice|You must not give up}." They went to [place]. [A]
        tried. [fail] "{I can't do it|It is too hard}!" [a.he] {cried|said}. [B] {sat down next to [a.him]|took [a.his]
        hand}. "When I was {little|your age}, I {could not do it either|failed many times}," [b.he] said. "{Nobody can
        do it the first time|Every time you try, you get a little better}. {Will you try|Shall we try} {once
        more|again}?" [A] {wiped [a.his] tears|took a deep breath} and {nodded|stood up}. [A.he] tried again, and again,
        and again. {The next day|Day after day}, they came back. [better]

        {And then, on {Sunday|Friday}|Then, one day}, it happened: [success] "{I did it! I did it|Look at me, [b]}!"
        shouted [a]. "{I knew you could do it|You did it}," said [b], {clapping [b.his] hands|and [b.he] was so proud}.
        {That evening|Later}, [a] {told everybody about it|drew a picture of it}. {Trying again was the best trick of
        all.|[A] knew now that trying again is the secret.}
        """,
        {},
        (
            {
                "skill": "ride a bike",
                "place": "the {quiet street|park}",
                "fail": "The bike {shook|wobbled}, and [a] fell {into the grass|on [a.his] knee}.",
                "better": "Soon [a.he] could ride {a few feet|to the first tree}.",
                "success": "[a] rode all the way {to the gate|around the park}!",
            },
            {
                "skill": "swim",
                "place": "the {pool|lake}",
                "fail": "Water got into [a.his] nose, and [a.he] {went under|coughed}.",
                "better": "Soon [a.he] could {float on [a.his] back|kick with both legs}.",
                "success": "[a] swam all by [a.him]self{ to the other side|}!",
            },
            {
                "skill": "skate on the ice",
                "place": "the {frozen|white} pond",
                "fail": "[A.his] feet slipped, and [a.he] fell {with a bump|on the ice}.",
                "better": "Soon [a.he] could {stand without help|take ten small steps}.",
                "success": "[a] went around the pond {like a bird|without falling}!",
            },
            {
                "skill": "catch a ball",
                "place": "the {yard|garden}",
                "fail": "The ball {hit [a.his] nose|rolled away into a bush}.",
                "better": "Soon [a.he] could {touch it with one hand|catch the slow ones}.",
                "success": "the ball came fast, and [a] caught it {with both hands|high in the air}!",
            },
            {
                "skill": "play the flute",
                "place": "{the living room|the quiet garden}",
                "fail": "The flute {made an awful sound|only squeaked}.",
                "better": "Soon [a.he] could play {one note|three notes}.",
                "success": "[a] played a whole song{ without a mistake|}!",
            },
        ),
    ),
    Plot(
        "hurt bird",
        {"a": "child", "b": "family"},
        """
        @open_child

        @day, [a] {was walking|was playing} {in the garden|near the woods|in the park} when [a.he] heard a {soft|sad}
        "peep, peep." {Under a bush sat|In the grass sat} a {little|tiny|small} [color] bird. It {could not fly|tried to
        fly, but it could not}. "{You poor thing|Poor little bird}," said [a]. "{Your wing is hurt|You are hurt}." {Very
        gently|Slowly and softly}, [a] picked it up and {took|carried} it home to [a.his] [b.kind]. "{Can we help
        it|What can we do}, [b]?" [a.he] asked. They put {soft|dry} {grass|cotton} in a {box|shoe box}, and the bird
        {lay down in it|sat in it}. [A] gave it water {with a spoon|in a tiny cup} and {seeds|bread crumbs}. {Every day
        after school|Every morning}, [a] {sat with the bird|talked to the bird} and {sang to it|told it stories}. [A]
        named it {Sky|Feather|Star|Berry}.

        After {two|three} weeks, the bird {began to flap its wings|hopped out of the box}. It looked at the window. "{I
        think it wants to go home|It misses the sky}," said [b] {softly|quietly}. "{It is my friend|I will miss it},"
        said [a], "but {a bird needs the sky|it will be happier outside}." [A.he] opened the window, and the bird flew
        {out|away} {into the blue sky|over the trees}. The next {morning|day|spring}, [a] heard a song {outside|at the
        window}. There sat the little bird! "{You came back to visit me|You did not forget me}!" said [a]. @smile_a
        """,
        {
            "color": COLORS,
        },
    ),
    Plot(
        "lost in the market",
        {"a": "child", "b": "family", "c": "seller"},
        """
        @open_child

        @day, [a] went to the {market|big market|fair} with [a.his] [b.kind]. "{Stay close to me|Hold my hand}," said
        [b]. "There are {so many|many} people {here|today}." [A] {saw|could see} [see1], [see2] and a {man|woman} with
        {red balloons|a big drum}. Then [a] stopped to look at [look]. When [a.he] {turned around|looked up}, [b] was
        gone! "{[B]! [B]!|Where are you, [b]?}" [a.he] called, but {nobody answered|it was too loud}. [A] was very
        @scared. "If you get lost, ask for help," [b] always said. So [a] {wiped [a.his] eyes|took a deep breath} and
        went to a friendly [c.kind]{ of apples| of flowers| of bread| of fish|}. "{Excuse me|Please help me}," [a.he]
        said. "I can't find my [b.kind]."

        "{Don't be afraid|Don't worry}," said [c]. "{What does [b.he] look like|How can I know [b.him]}?" "[B.he] wears
        a [color] [cloth]," said [a]. [C] lifted [a.him] up on a {box|table}. From there, [a] looked over all the heads.
        "There! I can see [b.him]!" [a.he] shouted. [B] heard [a.him] and came running. "{I was so worried|I looked for
        you everywhere}," said [b] and {hugged [a.him] tight|held [a.him] close}. {"Thank you so much," said [a].|[A]
        thanked [c].} {[C] gave [a.him] {an apple|a cookie|a balloon} for being so brave.|All the way home, [a] held
        [b]'s hand.}
        """,
        {
            "see1": ("fat geese", "tall cheeses", "bright lamps", "baskets of plums"),
            "see2": ("pots and pans", "sweet cakes", "wooden toys", "bags of nuts"),
            "look": ("a tiny monkey", "a dancing dog", "a box of kittens", "a shiny music box"),
            "color": COLORS,
            "cloth": ("hat", "scarf", "coat"),
        },
    ),
)
