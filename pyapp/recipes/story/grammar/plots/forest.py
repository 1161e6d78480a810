"""Stories of animals in the forest."""

from __future__ import annotations

from pyapp.recipes.story.grammar.plots.plot import Plot

FOREST = (
    Plot(
        "the race",
        {"a": "animal:turtle,mouse,hedgehog,duck,frog", "b": "animal:rabbit,fox,deer,goat,dog"},
        """
        @open_animal {Not far away|Nearby} lived a [b.kind] named [b], who was very {fast|quick}. [B] {always said|liked
        to say}, "{I am the fastest of all|Nobody is as fast as I am}!"

        @day, [b] laughed at [a]. "{You are so slow|Look how slow you are}!" [b.he] said. "{That may be|Maybe I am
        slow}," said [a], "but {I never stop|I don't give up}. {Let's race|Let us race} to the {big rock|old bridge|tall
        pine tree}." All the animals {came to watch|wanted to see it}. [B] ran {off like the wind|ahead} and was soon
        far away. [A] {took one step after another|went on and on, step by step}. {Halfway|After a while}, [b] looked
        back. [B.he] could not even see [a]. "{I have so much time|This is too easy}," [b.he] said. [stop]

        [A] {was hot and tired|got tired}, but [a.he] did not stop. [A.he] {passed|went past} [b] {without a
        sound|quietly} and {went on|kept going}. {When [b] looked up|When [b] saw it}, [a] was almost there! [B] ran as
        fast as [b.he] could, but {it was too late|[a] was already at the end}. "[A] wins!" {cried the owl|called the
        owl}, and all the animals {cheered|clapped}. [B] {looked at the ground|was red in the face}. "{I am sorry that I
        laughed at you|You did not give up, and I did}," [b.he] said. @friends_ab
        """,
        {},
        (
            {"stop": "So [b.he] lay down {in the shade|under a tree} and {fell asleep|closed [b.his] eyes}."},
            {
                "stop": (
                    "So [b.he] stopped {by a bush|in a garden} and began to eat {berries|leaves}, more and more of "
                    "them."
                ),
            },
            {
                "stop": (
                    "So [b.he] {sat down by the river|stopped at a pond} to look at [b.his] own {face|pretty face} "
                    "in the water."
                ),
            },
            {"stop": "So [b.he] {stopped to|began to} tell {the birds|a bird} how {fast|great} [b.he] was."},
        ),
    ),
    Plot(
        "food for the winter",
        {"a": "animal:squirrel,mouse,beaver,badger,hedgehog", "b": "animal:frog,rabbit,bear,fox,duck,cat"},
        """
        @open_animal

        {It was fall|Fall came}, and the leaves were {red and yellow|falling from the trees}. [A] worked hard every day.
        [A.he] {picked|gathered} [a.food] and {carried them all|brought them} home. [A.his] neighbor [b], a
        {young|funny|lazy} [b.kind], {sat in the sun|lay in the grass} and [play]. "{Come and play with me|Don't work so
        much}, [a]," said [b]. "Winter {will be here soon|is coming}," said [a]. "{Then there is nothing to eat|Then the
        ground is hard and cold}. {You should look for food, too|Let me help you find some food}." "{Oh, winter is far
        away|Tomorrow, tomorrow}," said [b] and {laughed|went on}.

        But winter came, with {snow and ice|cold wind and snow}. [A] sat in [a.his] warm home and had {enough to
        eat|plenty of food}. {One night|One cold evening}, there was a knock at the door. {Outside stood|It was} [b],
        {wet and cold|shaking with cold}. "{I have nothing to eat|I am so hungry}," [b.he] said {quietly|in a small
        voice}. [A] {did not laugh|was not angry}. "{Come in|Come in and get warm}," [a.he] said, and gave [b.him] a
        {big|warm} bowl of soup. All winter, [b] [play2] for [a], and {the long nights were full of joy|the time went by
        fast}. When {fall|the next fall} came {again|around}, [b] was the first one {up in the morning|at work}. "{First
        we work|Let's fill the house}, and then we play!" [b.he] said.
        """,
        {},
        (
            {"play": "sang songs", "play2": "sang songs"},
            {"play": "played the drum", "play2": "played the drum"},
            {"play": "told jokes", "play2": "told jokes"},
            {"play": "played the flute", "play2": "played the flute"},
        ),
    ),
    Plot(
        "a small friend can help",
        {"a": "animal:mouse,squirrel,hedgehog,beaver", "b": "animal:bear,deer,fox,badger,dragon,dog"},
        """
        @open_animal

        @day, [a] {was walking home|ran through the forest} and {did not look where [a.he] was going|sang a song}. Bump!
        [A.he] {ran right into|bumped into} a big [b.kind] named [b]. "{Who wakes me up|Who is that}?" {growled|said}
        [b]. "{I am very sorry|Please don't be angry}!" said [a]. "{I am only little|I did not see you}. {If you let me
        go,|Let me go, and} one day {I will help you|I may help you}, too." [B] laughed {so hard that the trees
        shook|loudly}. "{How could you help me|You? Help me}? {You are so small|You are as small as a nut}! But {all
        right|you make me laugh}. Go home, little one."

        {Some days later|A week later}, [a] heard a {sad|loud} cry. {[A.he] ran to see what it was.|[A.he] followed the
        sound.} It was [b]! [trouble] "{Please help me|I can't move}," {said|cried} [b]. "{Don't worry|Hold still},"
        said [a]. "{Now I can keep my promise|I will help you}." [rescue] {At last, [b] was free!|Soon [b] was free!}
        "{You are small|I laughed at you}," said [b], "but {you have a big heart|you saved me}. {Thank you, my friend|I
        will never laugh at a small animal again}." [B] lifted [a] {up on [b.his] back|up} and carried [a.him] {all the
        way home|home through the forest}. @friends_ab
        """,
        {},
        (
            {
                "trouble": "[B.he] was caught in a {hunter's|big} net.",
                "rescue": "[A] bit {one rope after another|through the ropes} with [a.his] {small|sharp} teeth.",
            },
            {
                "trouble": "[B]'s leg was stuck under {a heavy log|a fallen tree}.",
                "rescue": "[A] dug {a hole under it|and dug}, until [b] could pull [b.his] leg out.",
            },
            {
                "trouble": "[B] had a {big|sharp} thorn in [b.his] foot.",
                "rescue": "[A] {took it in [a.his] mouth|held it tight} and pulled and pulled.",
            },
            {
                "trouble": "[B] had fallen into a deep {hole|ditch}.",
                "rescue": (
                    "[A] {called all the birds|ran to the beavers}, and together they {brought branches|pushed a "
                    "log in} so that [b] could climb out."
                ),
            },
        ),
    ),
    Plot(
        "the moon in the pond",
        {"a": "animal:owl,fox,mouse,frog,bear,rabbit,cat,dog,dragon", "b": "animal:turtle,deer,badger,goat"},
        """
        @open_animal {Every night, [a.he] looked at the moon.|More than anything, [a] loved the moon.} "{It is so round
        and bright|It shines so beautifully}," [a.he] {said|thought}. "I {want to|wish I could} {touch it|hold it in my
        arms}."

        {One clear night|One night in summer}, [a] {went to the pond|came to the pond} to drink. And there, in the
        {dark|still} water, was the moon! "{It fell down|The moon has fallen into the water}!" cried [a]. "{I must save
        it|It will get wet}!" [A.he] [try]. But {each time|when [a.he] touched it}, the moon {broke into a hundred
        pieces|danced away}. "{What are you doing|What is all this noise}, [a]?" asked [b], the {old|wise|sleepy}
        [b.kind]. "{I want to save the moon|The moon is in the water, and I can't get it out}," said [a], {dripping|wet}
        {and cold|from head to foot}.

        [B] {laughed softly|smiled}. "Look up," [b.he] said. [A] looked up. There was the moon, {high in the sky|over
        the trees}. "{There are two moons|I don't understand}!" said [a]. "{The pond is like a mirror|The water shows
        you the sky}," said [b]. "{What you see there is only a picture|It is only a picture of the moon}." [A] {thought
        about it|was quiet for a while}. Then [a.he] sat down {next to|beside} [b], and they looked at {both moons|the
        moon and its picture} {together|for a long time}. "{It is even nicer with a friend|I don't need to hold it},"
        said [a]. "{Looking is enough|I am happy just to look}."
        """,
        {},
        (
            {"try": "{reached out|put [a.his] foot in} to pull it out"},
            {"try": "jumped {in with a big splash|right into the water}"},
            {"try": "took {an old net|a bucket} and tried to catch it"},
            {"try": "held out a {long stick|branch} so that the moon could hold on to it"},
        ),
    ),
    Plot(
        "a new home after the storm",
        {
            "a": "animal:squirrel,owl,mouse,hedgehog,rabbit",
            "b": "animal:beaver,fox,badger,bear,deer,dog",
            "c": "animal:duck,frog,goat,turtle",
        },
        """
        @open_animal

        One night, there was a {big|terrible} storm. {The wind howled, and the thunder was loud.|It thundered, and the
        rain fell hard.} [A] {hid in [a.his] bed|was very @scared}. Crack! {A tree fell down|A huge branch fell}, right
        on [a]'s home! [A] {ran out just in time|was not hurt}, but {the home was gone|nothing was left of [a.his]
        home}. In the morning, [a] sat {in the mud|on a stone} and {cried|was very @sad}. "{I have no home anymore|I
        don't know where to live}," [a.he] said. [B], the [b.kind], {came by|heard [a.him]}. "{Don't cry|Don't be sad},
        [a]," [b.he] said. "{We will build a new one|You have friends, and friends help}. {You can sleep at my place
        until then|I will call the others}."

        {Soon|After breakfast}, a {kind|friendly} [c.kind] came, too. Everyone did what {they could do best|they could}.
        [B] {carried heavy sticks|dug the ground|brought long branches}. The [c.kind] {brought soft moss|found some dry
        grass|carried mud for the walls}. [A] {made a door out of bark|put in a round window|swept the floor}. They
        {worked|sang and worked} {for three days|from morning to night}, and then it was {done|ready}. The new home was
        {strong and warm|even bigger than the old one}, and it had three beds. "{Why are there so many beds|Why are
        there three beds}?" asked the [c.kind]. "{So that you can stay here|They are for you and [b]}, if the wind ever
        {breaks your home|blows your home down}," said [a]. "{That is what friends are for|Now I know what friends
        are}." {They had a party with [a.food] and {nuts|berries|cake}.|That evening, they all ate [a.food] in the new
        home.} {Outside, the wind blew, but nobody was afraid.|And the storm could not scare them anymore.}
        """,
    ),
    Plot(
        "the bridge",
        {"a": "animal:goat,fox,deer,pig,dog", "b": "animal:goat,bear,badger,pig", "c": "animal:turtle,owl,frog,beaver"},
        """
        @open_animal

        @day, [a] wanted to cross the river to {visit [a.his] grandma|eat the {berries|sweet grass} on the other side}.
        There was only a {narrow|thin} bridge. {In the middle of it|Halfway over}, [a.he] met a [b.kind] named [b], who
        {came from the other side|wanted to go the other way}. "{Let me pass|Get out of my way}," said [a]. "{I was here
        first|I am in a hurry}." "No, {I was first|you go back}," said [b]. "{I am bigger than you|I will not move}."
        {They pushed and shouted.|They stood nose to nose and shouted.} The bridge {began to shake|went this way and
        that way}. Crack! {It broke|The wood broke}, and splash! They both fell into the {cold|brown} water.

        {A|An old} [c.kind] {had seen everything|saw it all}. [C.he] {pushed a log to them|held out a branch}, and [a]
        and [b] {climbed out|got out of the water}, {dripping wet|shaking with cold}. "{Are you happy now|Who was first
        now}?" asked the [c.kind]. [A] looked at [b]. [B] looked at [a]. They both looked so {wet and silly|funny} that
        they {had to laugh|began to laugh}. "{I am sorry|I'm sorry, [b]}," said [a]. "{I could have waited|I should have
        let you pass}." "{Me, too|I am sorry, too}," said [b]. "{I was too proud|It was my fault as well}." Together
        they {built|made} a new bridge. It was {wide and strong|so wide that two could pass}. {On it, they hung a
        sign|They put up a sign}: "After you, my friend!" And {every day|when they met there}, they {said hello and
        smiled|laughed and waited for each other}.
        """,
    ),
)
