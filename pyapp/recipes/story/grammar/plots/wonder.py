"""Stories with a little magic: wishes, dragons, treasure, stars and robots."""

from __future__ import annotations

from pyapp.recipes.story.grammar.plots.plot import Plot
from pyapp.recipes.story.grammar.words import COLORS

WONDER = (
    Plot(
        "a wish",
        {"a": "child", "b": "family"},
        """
        @open_child

        @day, [a] found a [color] {stone|shell|feather|bottle} {in the grass|by the river|on the beach}. When [a.he]
        {picked it up|cleaned it}, {there was a flash of light|it began to shine}, and {out came|there stood} a tiny
        fairy! "{Thank you for finding me|You set me free}," said the fairy. "{For that|Now}, you have one wish. But
        think {well|first}!" [A] {thought and thought|walked up and down}. "I could wish for [wish1]," [a.he] said. "Or
        for [wish2]!" [A.he] {went home to think|walked home} with the little fairy in [a.his] pocket.

        At home, [a.his] [b.kind] {sat|was} [trouble]. "{What is it|What is the matter}, [b]?" asked [a]. "{Oh, it is
        nothing|Don't worry about me}," said [b]. "[trouble2]." {Then [a] knew what to do|Now it was not hard to
        choose}. [A.he] {ran to [a.his] room|went outside} and {whispered|said}, "{I know my wish|I am ready}. Please
        [wish]!" The fairy {clapped her hands|waved her hand} and was gone. [result] "{How can that be|It is a wonder}!"
        [b.he] {cried|said}, and danced with [a] {around the table|through the house}. {[A] only smiled and kept the
        secret.|And [a] thought, "That was the best wish of all."}
        """,
        {
            "color": COLORS,
            "wish1": ("a pony", "a house full of toys", "a boat", "a mountain of candy"),
            "wish2": ("a flying bike", "a crown of gold", "a robot", "a trip to the moon"),
        },
        (
            {
                "trouble": "in the kitchen with a hand on [b.his] back",
                "trouble2": "My back hurts, and I can't {dance|work in the garden} anymore",
                "wish": "make [b]'s back well again",
                "result": "In the kitchen, [b] {stood up straight|jumped up}.",
            },
            {
                "trouble": "at the window and looked at [b.his] garden",
                "trouble2": "It has not rained for so long, and all my {flowers|plants} are dying",
                "wish": "let it rain on [b]'s garden",
                "result": "{Drip, drop|Suddenly}, it {began to rain|rained}, and [b] ran to the door.",
            },
            {
                "trouble": "at the table with an old picture",
                "trouble2": "I lost my {ring|golden ring}, the one from {my mother|long ago}",
                "wish": "bring back [b]'s ring",
                "result": "In the kitchen, [b] found the ring {in [b.his] tea cup|under the bread}.",
            },
            {
                "trouble": "by the fire with an old dog in [b.his] arms",
                "trouble2": "Our {good|dear} old dog is very sick",
                "wish": "make our dog well again",
                "result": "The dog {barked and jumped up|wagged its tail and ran around}, and [b] laughed.",
            },
        ),
    ),
    Plot(
        "the lonely dragon",
        {"a": "child", "b": "neighbor"},
        """
        @open_child

        On the mountain {near|behind} the village lived a [color] dragon. "{It eats sheep|It burns houses|It eats
        children}," said [b]. But at night, [a] heard a {sad|long} sound from the mountain. "{That does not sound
        angry|It sounds like crying}," [a.he] thought. @day, [a] put {bread and cheese|some apples|a cake} in a bag and
        {went up|climbed up} the mountain. In front of a {dark|big} cave sat the dragon. "{Go away|Leave me alone}!" it
        {roared|said}, and smoke came out of its nose. "{Hello|Good day}," said [a]. "I {brought you something to
        eat|heard you cry}. {Why are you so sad|What is wrong}?"

        The dragon {was so surprised that it sat down|closed its big mouth}. "{Nobody has ever asked me that|Nobody
        talks to me}," it said. "[sad]." "{I can help you|Don't cry}," said [a]. "[help]." {A big tear ran down the
        dragon's nose.|The dragon smiled with all its teeth.}

        {Then [a] rode home|Then [a] came back to the village} on the dragon's back! "Don't {run|be afraid}!" called
        [a]. "{It is kind|It only wanted a friend}!" {[B] was the first to come closer.|Slowly, [b] came out from behind
        a door.} "{We were wrong|We never asked you}," [b.he] said. From then on, the dragon {lit their lamps every
        night|gave rides to all the children|cooked soup for everybody with its fire}, and it was never {sad|lonely}
        again.
        """,
        {
            "color": COLORS,
        },
        (
            {
                "sad": "I am all alone, and {the nights are so long|I have no one to play with}",
                "help": "I will {come and play with you every day|be your friend}",
            },
            {
                "sad": "I have {a bad tooth|a thorn in my foot}, and it hurts {so much|day and night}",
                "help": "I will {pull it out for you|take it out very gently}",
            },
            {
                "sad": "I {want to read|love stories}, but {I never learned to read|nobody taught me to read}",
                "help": "I will {bring my books|teach you to read}",
            },
            {
                "sad": "It is my birthday, and {nobody knows it|I never had a cake}",
                "help": "I will {sing for you|make you a party}",
            },
        ),
    ),
    Plot(
        "treasure map",
        {"a": "child", "b": "child", "c": "family:Grandma,Grandpa"},
        """
        @open_child

        One {rainy|gray} {day|afternoon}, [a] and [a.his] friend [b] {played|looked around} {in the attic|in the
        cellar}. {In|Inside} an old {box|book|trunk}, they found a {yellow|dusty} paper. "It is a map!" said [b].
        "{Look, there is|I see} a [color] X on it. {That must be a treasure|There is a treasure}!" The map said: "{Start
        at the|Go to the} [place1]." They {ran there|went there}. "{Then|Now} take {ten|twenty|thirty} steps to the
        [place2]." "{Look under|Dig under} the [place3]." [A] {dug and dug|dug with the shovel}. "{There is nothing
        here|I am tired}," said [b] {after a while|soon}. "{Just a little more|Treasure hunters don't give up}," said
        [a]. Clunk! {There was a box!|The shovel hit something hard. It was a box!}

        Their hearts beat fast when they opened it. {There was no gold|It was not gold}. In the box were [treasure].
        {They took the box to [a]'s [c.kind].|They showed it to [a]'s [c.kind].} "{That is my box|I know this box}!"
        said [c]. "{When I was little|As a child}, I {buried it|hid it} with my best friend!" [memory] "{This is better
        than gold|That was a real treasure}," said [a]. The next day, [a] and [b] {filled|packed} a box of their own,
        {drew a new map|made a map} and {hid it|buried it} for {somebody in a hundred years|other children to find}.
        """,
        {
            "color": ("red", "black", "blue", "green"),
            "place1": ("old well", "garden gate", "big gray rock", "wooden bridge"),
            "place2": ("north", "south", "east", "west"),
            "place3": ("oak tree", "apple tree", "old wall", "flat stone"),
        },
        (
            {
                "treasure": "{glass balls|marbles} of many colors",
                "memory": (
                    '[C.he] {took one in [c.his] hand|held one to the light}. "We played with these every day," '
                    "[c.he] said."
                ),
            },
            {
                "treasure": "old letters and a {little|small} flute",
                "memory": "[C.he] {took the flute|blew off the dust} and played a {sweet|happy} song.",
            },
            {
                "treasure": "a {tin soldier|wooden doll} and a picture",
                "memory": (
                    '[C.he] {pointed at|showed them} the picture. "That is me," [c.he] said, "with {no front '
                    'teeth|two dirty knees}!"'
                ),
            },
            {
                "treasure": "{seven shells|some shells} and a silver {coin|whistle}",
                "memory": (
                    '"We found them {at the beach|by the sea}," [c.he] said, "on the {best day|first day} of summer."'
                ),
            },
        ),
    ),
    Plot(
        "the fallen star",
        {"a": "child", "b": "family"},
        """
        @open_child

        One night, [a] {looked out of the window|could not sleep} and saw a light {fall from the sky|fall into the
        garden}. {[A.he] put on [a.his] shoes and ran out.|Quietly, [a.he] went out.} In the grass lay a {little|tiny}
        star! It {shone only a little|was almost dark}. "{Help me|Please help me}," it {whispered|said} in a voice like
        a bell. "I fell down, and {I am getting cold|my light is going out}. {I miss my family|My sisters are up
        there}." "{You poor thing|Don't be sad}," said [a]. "{I will help you|I will take you home}. {What makes a star
        bright|What do stars need}?" "{Kind words and songs|Laughter}," said the star. So [a] {told it|sang to it} {all
        the nice things [a.he] knew|the best songs and jokes}, and {the star laughed|the star giggled}. {Slowly it
        became brighter|It began to shine}, brighter and brighter!

        "{Now I have light|Now I am strong}," it said, "but how can I get {up|home}?" [try] {"One, two, three!" shouted
        [a].|"Goodbye, little star!" said [a].} Whoosh! The star flew up, {over the roofs|over the trees} and over the
        {clouds|mountains}. In the morning, [a] told [a.his] [b.kind] {about it|everything}. "{That was a beautiful
        dream|What a lovely dream}," said [b]. But {in [a.his] pocket|on [a.his] hand} there was {a bit of silver
        dust|some golden dust}. And {that night|every night}, one star {winked at [a.him]|shone a little brighter than
        the others}. "{Good night|Sleep well}, my friend," said [a].
        """,
        {},
        (
            {
                "try": (
                    "[A] {had a good idea|thought hard}. [A.he] {got|took} [a.his] {red|blue|green|yellow} kite and "
                    "put the star on it."
                ),
            },
            {"try": "[A] {climbed|went} up to the top of the {old apple tree|hill} and held the star {high up|up}."},
            {"try": "[A] put the star on [a.his] swing and {pushed it|pushed}, higher and higher."},
            {"try": "[A] {asked an owl|called the owl}, and the owl took the star {on its back|in its beak}."},
        ),
    ),
    Plot(
        "the robot",
        {"a": "child", "b": "child"},
        """
        @open_child {[A.he] liked to build things|[A.he] could build anything} out of old {boxes|cans|parts}.

        @day, [a] built a robot. It had a [color] {head|body}, {two|three} {long|short} arms and [wheels]. [A] {pushed a
        button|turned a key}. "Beep! Hello," said the robot. "{What shall I do|How can I help}?" "{Wow, it works|It can
        talk}!" {cried|said} [a]. [A.he] called it {Beep|Clink|Bolt|Sparky}, {and they did everything together|and the
        robot followed [a.him] everywhere}. The robot could {clean the room|carry the bags}, {count to a million|do
        math} and {make toast|cook eggs}. But there was {something|one thing} it did not {understand|know}. When [a]'s
        friend [b] {fell down and cried|lost [b.his] kitten and cried}, the robot {looked at [b.him]|came closer}.
        "{Water comes out of [b]'s eyes|[B]'s eyes are wet}," it said. "{Is [b.he] broken|Shall I fix [b.him]}?"

        {"No," said [a], "[b] is not broken.|[A] shook [a.his] head. "[B] is not broken.} [B.he] is sad." "{What is
        sad|How do you fix sad}?" asked the robot. "{You sit next to your friend|You stay with your friend}," said [a].
        "{You listen|You hold a hand}." The robot {beeped softly|thought about it, and its lights went on and off}. Then
        it {rolled to [b]|went to [b]} and took [b.his] hand. "{I am here|I will stay with you}," it said. {[B] stopped
        crying.|[B] wiped [b.his] eyes.} "{Now I feel something|Something in me is warm}," said the robot. "{Am I
        broken|Is that bad}?" "No," said [a] {and hugged it|with a smile}. "{That is what it feels like to be a
        friend|You are not broken. You are a friend}."
        """,
        {
            "color": COLORS,
            "wheels": ("four wheels", "six wheels", "two big feet", "three legs"),
        },
    ),
    Plot(
        "the old tree",
        {"a": "child", "b": "neighbor", "c": "child"},
        """
        @open_child

        {In front of [a]'s house|At the end of [a]'s street} stood a very old tree. [A] {sat under it every day|climbed
        it every day}. @day, [b] came with a long saw. "{This tree must go|I have to cut down this tree}," [b.he] said.
        "[why]." "{No! Please don't|Wait}!" cried [a]. "{It is my friend|So many live in this tree}! {Look|Come and
        see}!" [A] showed [b] {the nest with {three|four} small birds|a bird and her eggs|the hole where a squirrel
        lived}. "{And here|And on this branch}," said [a], "{my friend [c] and I made a swing|I sit with my friend [c]}.
        {Where would we all go|Where would the birds go}?"

        [B] {put down the saw|scratched [b.his] head} and looked up {for a long time|into the green leaves}. "{When I
        was a child|Long ago}," [b.he] said slowly, "I {climbed a tree like this one|sat in this tree, too}. {How could
        I forget that|How did I forget it}?" {Just then, [c] came.|Then [c] came running.} "[idea]," said [c]. "{That is
        a good idea|That could work}!" said [b] {and smiled|with a laugh}. {So they all worked together|They worked all
        afternoon}, and {the tree could stay|the old tree was saved}. {In the evening|When the work was done}, they all
        {ate {apples|sandwiches}|drank lemonade} in the shade. "{Thank you for opening my eyes|It is good that you spoke
        up}, [a]," [b.he] said. "{Sometimes one small voice can save a big tree|Even a child can save a tree}."
        """,
        {},
        (
            {
                "why": "Its branches {hit my roof|knock on my window} when the wind blows",
                "idea": "We can cut only {those branches|the long branches}",
            },
            {
                "why": "Its leaves fall {all over my yard|into my yard}, and {I am too old to sweep|my back hurts}",
                "idea": "We will sweep the leaves for you{ every week|}",
            },
            {
                "why": "It takes all the sun from my {tomatoes|flowers|beans}",
                "idea": "We can move your garden {to the other side|to the sunny side}",
            },
        ),
    ),
)
