"""Stories at home: lost and broken things, rainy days, dark nights."""

from __future__ import annotations

from pyapp.recipes.story.grammar.plots.plot import Plot
from pyapp.recipes.story.grammar.words import COLORS, TOYS

HOME = (
    Plot(
        "lost toy",
        {"a": "child", "b": "family"},
        """
        @open_child [A.his] favorite {toy|thing} was a [color] [toy] {that [b] had given [a.him]|from [a.his]
        [b.kind]|}.

        @day, the toy was gone. [A] looked {under the bed|on the shelf|behind the door} and {in the toy box|behind the
        sofa|in the kitchen}, but it was not there. {[A.he] began to cry.|[A.he] was very @sad.|[A] sat down and cried.}
        "{What is wrong|Why are you crying|Why are you so sad}, [a]?" asked [a.his] [b.kind]. "I {can't find|have lost}
        my favorite toy," said [a]. "{I looked everywhere!|I want it back!|I miss it so much!}" "{Don't worry|Let's
        think}," said [b]. "Where did you {play with it|have it} last?" [A] thought {hard|for a moment}. "[memory],"
        [a.he] said.

        [search]. {There|Look! There} it was, [place]! [detail] {[A] jumped for joy.|[A] laughed and hugged the toy.|[A]
        was @glad.} "Thank you{ for helping me|}, [b]!" [a.he] said. {From then on|From that day on|After that}, [a]
        always put the toy {on the shelf|in the toy box|next to [a.his] bed} {in the evening|after playing}{, so it
        never got lost again|}.
        """,
        {
            "toy": TOYS,
            "color": COLORS,
        },
        (
            {
                "memory": "I played in the garden before lunch",
                "search": "They went out to the garden",
                "place": "under the {apple tree|old bench|rose bush}",
                "detail": "It was {a little wet|full of leaves}.",
            },
            {
                "memory": "I sat on the rug with our dog",
                "search": "They walked to the dog's bed",
                "place": "right under the dog's nose",
                "detail": "The dog {wagged its tail|only wanted to play, too}.",
            },
            {
                "memory": "I had it when I took my bath",
                "search": "They ran to the bathroom",
                "place": "{behind the tub|under a towel}",
                "detail": "It was {all clean|still wet}.",
            },
            {
                "memory": "I held it when I went to sleep",
                "search": "They pulled the blanket off the bed",
                "place": "at the very end of the bed",
                "detail": "It looked {as if it was sleeping|warm and cozy}.",
            },
            {
                "memory": "I took it with me in the car",
                "search": "They opened the door of the car",
                "place": "on the back seat",
                "detail": "It {was waiting for a ride|had a seat all to itself}.",
            },
        ),
    ),
    Plot(
        "broken thing",
        {"a": "child", "b": "family"},
        """
        @open_child {[A.he] liked to play with [a.his] [color] ball.|[A.he] had a [color] ball that bounced very high.}

        One {rainy|cold|windy} {day|afternoon}, [a] played with the ball in the {living room|kitchen}. "{Please don't|Do
        not} throw the ball in the house," said [a.his] [b.kind]. But [a] {did not listen|forgot}. [A.he] threw the ball
        {up high|very hard}. Crash! The ball hit [b]'s [thing], and it {fell to the floor and broke|broke into
        {many|three|two} pieces}. [A] was very @scared. [A.he] {hid behind the sofa|wanted to run away|hid the pieces
        under the rug}. But then [a.he] thought, "{It is better to tell the truth|It is wrong to hide|I must tell the
        truth}."

        [A] went to [b]. "{I am so sorry|I'm very sorry}, [b]," [a.he] said {in a small voice|with tears in [a.his]
        eyes}. "I broke it with my ball." [B] was {quiet for a moment|a little sad}, but [b.he] was not angry. "Thank
        you for telling {me the|the} truth," [b.he] said. "That was {brave|very brave}. {You are more important to me
        than things|Broken things can be fixed}." Together they {picked up all the pieces|swept the floor} and {fixed
        everything with glue|glued the pieces together}. {It did not look new, but they both liked it even more.|It had
        a few lines now, but it was still pretty.} {After that|From then on}, [a] only played with the ball {outside|in
        the yard|in the garden}.
        """,
        {
            "color": COLORS,
            "thing": ("vase", "blue cup", "flower pot", "lamp", "white bowl", "clock", "tea pot"),
        },
    ),
    Plot(
        "rainy day",
        {"a": "child", "b": "family"},
        """
        @open_child

        One {gray|dark|wet} morning, it {rained and rained|rained very hard|would not stop raining}. [A] stood at the
        window with a sad face. "I {wanted to|want to} [wish]," [a.he] said, "but {now I can't|I can't go outside|it is
        too wet}. {I am so bored|There is nothing to do}!" [B] {sat down next to [a.him]|looked at the rain and
        smiled|had an idea}. "{A rainy day can be fun, too|We can have fun inside}," [b.he] said. "Let's [make]!"
        "{How|How can we do that}?" asked [a]. "{You will see|Just watch}," said [b]. [steps] [A] {helped a lot|worked
        hard|laughed and helped}. [result]

        {They played all day long|They played until dinner|Soon the whole room was full of laughter}. When the rain
        stopped, {[a] did not even see it|a big rainbow came out over the {trees|hills|town}}. "{I like rainy days
        now|Rainy days are the best|I hope it rains tomorrow, too}," said [a]. {[B] laughed and kissed [a.his]
        cheek.|[B] smiled.} @sleep_a
        """,
        {
            "wish": (
                "ride my bike",
                "play in the park",
                "go to the playground",
                "play ball with my friends",
                "go to the beach",
            ),
        },
        (
            {
                "color": "{red|blue|green|yellow}",
                "make": "build a fort",
                "steps": "They took {two|three|four} chairs and put a [color] blanket on top.",
                "result": (
                    "The fort was {dark and cozy|warm and safe} inside, and they {read a book|ate cookies} in it."
                ),
            },
            {
                "make": "make a boat",
                "steps": "They cut an old box and painted it {red|blue|green|yellow}.",
                "result": "[A] was the captain, and the {rug|kitchen floor} was the {wide|deep} blue sea.",
            },
            {
                "make": "put on a puppet show",
                "steps": "They made puppets out of old socks and buttons.",
                "result": (
                    "[A]'s puppet was a {king|queen|wolf|dragon}, and [b]'s puppet was a {silly|sleepy|hungry} bear."
                ),
            },
            {
                "make": "bake bread",
                "steps": "They mixed flour, water and salt in a {big|white} bowl.",
                "result": (
                    "[A] made a loaf that looked like a {cat|fish|star|snail}, and it smelled {so good|wonderful}."
                ),
            },
            {
                "make": "play pirates",
                "steps": "They made hats out of paper and a flag out of a towel.",
                "result": "The sofa was their ship, and they {found|looked for} gold under the {pillows|table}.",
            },
        ),
    ),
    Plot(
        "dark night",
        {"a": "child", "b": "family"},
        """
        @open_child {But [a] was @scared of the dark.|There was only one thing [a] did not like: the dark.}

        One night, [a] was in bed when [a.he] heard a {strange|funny|loud} sound. "[Sound], [sound]!" {[A.he] pulled the
        blanket over [a.his] head.|[A.his] heart beat fast.|[A.he] held [a.his] pillow tight.} "{It is a monster|There
        is a ghost}!" [a] thought. "{[B]! [B]|Help, [b]}!" [a.he] called. [B] came {quickly|right away} and turned on
        the {light|lamp}. "{What is the matter|What happened}, [a]?" [b.he] asked. "There is something {scary|big} {in
        the dark|out there}," said [a]. "{It goes|I hear it go} [sound]!" "{Let's find out|Let's look} together," said
        [b]. "Things are less scary when {you know what they are|we look at them}."

        They {took a light and|held hands and} [go]. {Then they saw it.|And what did they see?} It was only [cause]!
        [joke] [A] {laughed and laughed|began to laugh|had to laugh}. "{That is not a monster at all|You are a silly
        monster}!" [a.he] said. [B] {tucked [a.him] in again|took [a.him] back to bed} and {kissed [a.him] good
        night|sang a soft song}. {The next time|When} [a] heard a sound in the dark, [a.he] {was not @scared
        anymore|smiled and went back to sleep}.
        """,
        {},
        (
            {
                "sound": "tap",
                "go": "looked out of the window",
                "cause": "the branch of {a tree|the old tree} in the wind",
                "joke": "It knocked on the window like a {friend|guest}.",
            },
            {
                "sound": "scratch",
                "go": "opened the door",
                "cause": "the {gray|black|white|brown} cat",
                "joke": "It {was cold and wanted to come in|wanted to sleep in [a]'s bed}.",
            },
            {
                "sound": "hoot",
                "go": "walked to the window",
                "cause": "an owl in the {tree|garden}",
                "joke": "It {looked at them with big yellow eyes|was singing its night song}.",
            },
            {
                "sound": "drip",
                "go": "went to the bathroom",
                "cause": "water from the {tap|shower}",
                "joke": "Drop by drop, it {fell into the tub|made a tiny song}.",
            },
            {
                "sound": "snore",
                "go": "walked down the hall",
                "cause": "the {old|big|fat} dog",
                "joke": "It was {fast asleep on the rug|sleeping on its back}.",
            },
        ),
    ),
    Plot(
        "messy room",
        {"a": "child", "b": "family:Mom,Dad"},
        """
        @open_child But [a]'s room was {very messy|always a big mess}. There were {toys|socks|books} on the bed and
        {paper|shoes|blocks} all over the floor. "{Please clean|You should clean|It is time to clean} your room," said
        [a.his] [b.kind]. "{Later|Not now|I don't want to}," said [a].

        @day, [a] was going to [event]. [A.he] was very {happy|excited}. But [a.he] could not find [a.his] [thing]!
        [A.he] looked {here and there|left and right|high and low}, but {there was too much stuff|the mess was too big}.
        "{Oh no|Help}!" cried [a]. "{I will be late|I can't go} without it!" "{Let's clean up together|We must clean
        first}," said [b]. "{Then we will find it|When all things have a place, you can find them}." They put the
        {books|toys} on the shelf and the {socks|shirts} {in the drawer|in the basket}. {Bit by bit|Little by little},
        the room {became clean|looked better}. And there, {under|right under} {the last pile of clothes|an old box|the
        bed}, it was!

        "{Hooray|I found it}!" said [a]. [A.he] was just in time. [fun] {In the evening|When [a.he] came home}, [a]
        looked around [a.his] clean room. "{It is so much nicer now|I like it this way}," [a.he] said. From that day on,
        [a] {cleaned [a.his] room every {day|week}|put [a.his] things away every evening}.
        """,
        {},
        (
            {
                "event": "swim in the lake with friends",
                "thing": "{red|blue|green} towel",
                "fun": "The water was cool, and {everyone|[a]} had a great time.",
            },
            {
                "event": "see a show with friends",
                "thing": "{ticket|blue ticket}",
                "fun": "The show was {funny|great}, and everyone laughed a lot.",
            },
            {
                "event": "a costume party",
                "thing": "{golden|silver} crown",
                "fun": "Everybody at the party {liked|loved} it.",
            },
            {
                "event": "play soccer with the team",
                "thing": "{left|right} shoe",
                "fun": "The team played well, and [a] {scored a goal|ran very fast}.",
            },
            {
                "event": "go on a trip with [a.his] class",
                "thing": "{green|red|yellow} bag",
                "fun": "The class went to {a farm|the zoo|the museum}, and [a] saw many new things.",
            },
        ),
    ),
    Plot(
        "loose tooth",
        {"a": "child", "b": "family", "c": "child"},
        """
        @open_child

        @day, [a] {bit into|was eating} {an apple|a carrot|a piece of toast} when [a.he] felt something {strange|new}.
        One of [a.his] teeth was loose! It went {back and forth|this way and that way}. "{Oh no|Help}!" said [a]. "My
        tooth is {falling out|broken}. Am I sick?" "No, {my dear|sweetheart|little one}," said [a.his] [b.kind] with a
        {smile|laugh}. "{It only means that you are growing|You are growing up}. Soon you will have a {new|big new}
        tooth." {[A] was still a little @scared.|[A] was not so sure.} "Will it hurt?" [a.he] asked. "{Only a little
        bit|Not much}," said [b].

        The next day, [a] {told [a.his] friend [c] about it|showed the tooth to [a.his] friend [c]}. "I lost {one|two},
        too!" said [c]. "{Look|See}, here is the hole!" They {laughed|giggled} so hard that the tooth just fell out! It
        did not hurt at all. That night, [a] put the tooth under [a.his] pillow. In the morning, it was gone, and there
        was {a shiny coin|a tiny letter|a little silver star|a small golden coin}. {"Look, [b]!" cried [a].|[A] ran to
        show [b].} "{Growing up is not so bad|I can't wait to lose the next one}!" [a.he] said, with a big smile that
        had a {small|little} hole in it.
        """,
    ),
    Plot(
        "too many sweets",
        {"a": "child", "b": "family", "c": "child"},
        """
        @open_child Most of all, [a] loved [sweet].

        @day, [a.his] [b.kind] {made|baked|brought home} a big plate of them. "{You may have|You can eat} two now," said
        [b]. "The rest is for {your friend [c]|our guests|the party} {later|tonight|tomorrow}." [A] ate two. They were
        {so good|very sweet}! "{Just one more|One more is not bad}," [a.he] thought. [A.he] took {another one|a third
        one}. Then another, and another, {until the plate was almost empty|until [a.he] could not eat any more}. Soon
        [a]'s tummy {began to hurt|hurt very much}. [A.he] {lay down on the sofa|held [a.his] tummy} and
        {groaned|cried}. "{Did you eat them all|Are they all gone}, [a]?" asked [b]. "Yes," said [a]. "{I am sorry|I'm
        so sorry}. I {wanted them all for myself|could not stop}."

        [B] {gave [a.him] a cup of {warm|mint} tea|rubbed [a.his] tummy}. "{Too much of a good thing can hurt|You can
        have too much of a good thing}," [b.he] said {softly|kindly}. The next day, [a] felt {better|well again}. [A.he]
        helped [b] make new ones, and this time [a] gave {most of them|all of them|the biggest ones} to [c]. "{They
        taste better when we share|This is much more fun}," said [a], and {everyone|[c]} {smiled|agreed}.
        """,
        {
            "sweet": ("cookies", "pancakes", "cherries", "honey cakes", "sweet rolls", "muffins", "jam tarts"),
        },
    ),
    Plot(
        "baking with a neighbor's help",
        {"a": "child", "b": "family:Grandma,Grandpa,Mom,Dad", "c": "neighbor"},
        """
        @open_child

        @day, [a] and [a.his] [b.kind] wanted to {bake|make} {a|a big} [cake]. "{Today is [who]'s birthday|It is a
        surprise for [who]}," said [b]. [A] {washed [a.his] hands|put on an apron} and {got a big bowl|took out a
        spoon}. {They put in|First came} {flour and sugar|sugar and eggs}. But then [b] opened the {cupboard|fridge} and
        {frowned|shook [b.his] head}. "{Oh no|Oh dear}! We have no [missing]," [b.he] said. "How can we {make|bake} a
        cake now?" "{I have an idea|I know what to do}!" said [a]. "{Let's ask|I can ask} [c] next door." [A] ran to the
        {yellow|little|blue} house and {knocked on the door|rang the bell}. "{Hello|Good morning}," [a.he] said. "{We
        want to bake a cake|We are making a cake}, but something is missing. {Can you help us|Will you help us}?" "Of
        course," said [c]. "{Here you are|Take all you need}."

        Soon the cake was in the oven, and the whole house smelled {sweet|wonderful}. {Everyone was very happy|It was a
        great surprise}. But [a] {cut one more piece|kept one piece}. "{This is for|I will take this to} [c]," [a.he]
        said. "{[C.he] helped us, so we should share|Without [c.him], we would have no cake}." [C] {loved the
        cake|smiled from ear to ear}. "{What a kind [a.kind] you are|That is so sweet of you}," [c.he] said.
        """,
        {
            "cake": ("chocolate cake", "carrot cake", "cherry cake", "apple cake", "lemon cake", "banana cake"),
            "who": ("Aunt Lisa", "Uncle Bob", "Uncle John", "Aunt Mary", "Cousin Peter"),
            "missing": ("milk", "butter", "salt", "honey", "cream"),
        },
    ),
)
