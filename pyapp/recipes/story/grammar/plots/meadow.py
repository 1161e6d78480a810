"""More stories of animals: on the farm, by the pond, in the grass."""

from __future__ import annotations

from pyapp.recipes.story.grammar.plots.plot import Plot
from pyapp.recipes.story.grammar.words import FLOWERS

MEADOW = (
    Plot(
        "afraid to jump",
        {"a": "animal:duck,frog,squirrel,beaver,hedgehog,cat", "b": "animal:turtle,goat,deer,badger"},
        """
        @open_animal But [a] had a secret: [a.he] was afraid of [fear]. {None of the other young [a.kind]s was
        afraid.|The other young [a.kind]s were not afraid.} "{Maybe tomorrow|I am too tired}," [a] always said. Only
        [b], the old [b.kind], {knew the truth|saw how [a] felt}. "{You are afraid, aren't you|Is something wrong,
        little one}?" [b.he] asked one {evening|day}. [A] {nodded|looked down}. "{Don't tell the others|They will laugh
        at me}," [a.he] said. "{Everyone is afraid of something|I was afraid, too, when I was young}," said [b].
        "[step]."

        {So they did.|And that is what they did.} On the first day, [a] {was very nervous|shook all over}, but [b]
        {stayed close|was there}. On the second day, {it was easier|[a] went a little farther}. On the third day, [a]
        {even smiled|almost liked it}. [need] "Help!" cried the little {one|mouse}. [A] {forgot to be afraid|did not
        stop to think}. [brave]

        "{You saved me|Thank you, [a]}!" said the {baby|little} mouse. {[A] looked around in surprise|Only then did [a]
        see what [a.he] had done}. "{I did it|I really did it}!" [a.he] said. [B] {laughed with joy|had seen it all}.
        "{You were afraid, and you did it anyway|I always knew it}," [b.he] said. "That is {what brave means|real
        courage}." {From that day on|After that}, [a] {did it every day, just for fun|was the first one in line}.
        """,
        {},
        (
            {
                "fear": "deep water",
                "step": "Today, only put one foot in",
                "need": "A {tiny|baby} mouse {sat on a leaf|fell from a leaf} in the middle of the pond.",
                "brave": "[A.he] jumped in, swam {as fast as [a.he] could|to the middle} and carried the mouse back.",
            },
            {
                "fear": "high places",
                "step": "Today, only climb on this stone",
                "need": "A {tiny|baby} mouse was stuck on {top of a tall rock|a high wall}.",
                "brave": "[A.he] climbed up {and up|higher and higher} and brought the mouse down.",
            },
            {
                "fear": "the dark",
                "step": "Today, only look into my dark tunnel",
                "need": "A {tiny|baby} mouse was lost in {a deep cave|an old, dark cave}.",
                "brave": (
                    "[A.he] ran into the cave, {found the mouse in a corner|followed the soft cries} and led it out."
                ),
            },
        ),
    ),
    Plot(
        "cannot sleep",
        {
            "a": "animal:bear,mouse,rabbit,owl,fox,hedgehog,cat,dragon",
            "b": "animal:frog,duck,deer,goat,badger",
            "c": "animal:turtle,pig,squirrel",
        },
        """
        @open_animal

        One night, [a] could not sleep. [A.he] {turned left and right|closed [a.his] eyes}, but {it did not help|sleep
        did not come}. So [a.he] {got up|put on [a.his] slippers} and went {outside|out into the night}. [A] met [b],
        the [b.kind]. "I can't sleep," said [a]. "{What do you do|What helps you} when you can't sleep?" "{I count|I
        always count} {stars|fireflies|leaves}," said [b]. "{Try it|It always works}." So [a] counted. But [a.he] was
        still {wide awake|not tired}. Then [a] {met|came to} {a|an old} [c.kind]. "{Drink warm milk|Eat some [c.food]},"
        said the [c.kind]. [A] {tried that, too|did so}. Now [a.his] tummy was full, but [a.he] {was still awake|still
        could not sleep}.

        [A] {went home|walked home slowly}. [A.his] mother was {at the door|sitting by the fire}. "{What is it, my
        child|Where have you been}?" she asked. [reason] {"I see," said Mother.|Mother took [a.him] in her arms.}
        "[answer]." {[A] thought about it|That sounded right to [a]}, and {[a.his] heart became light|suddenly [a.he]
        felt much better}. Mother sang an old song about {the moon|the sea|a sleepy star}. {Before it was over|Before
        the last word}, [a] was fast asleep. {Sometimes a worry keeps us awake until we tell it.|[A.he] did not need
        stars or food. [A.he] needed to tell [a.his] worry.}
        """,
        {},
        (
            {
                "reason": '"I {took|ate} the [c.kind]\'s {plums|pie} and did not tell," said [a].',
                "answer": "Tomorrow you can say that you are sorry, and {[c.he] will forgive you|all will be well}",
            },
            {
                "reason": '"I am afraid that the {winter|snow} will be {long|too cold}," said [a].',
                "answer": "We have {food|wood} and {warm blankets|a good fire}, and we have each other",
            },
            {
                "reason": '"I shouted at [b] today," said [a], "and I {feel bad|am sorry} about it."',
                "answer": "A true friend forgives. {Tell [b.him] in the morning|Go to [b.him] tomorrow}",
            },
            {
                "reason": '"What if I {fail|fall} in the {race|show} tomorrow?" asked [a].',
                "answer": "Then you will try again, and I will love you {just the same|just as much}",
            },
        ),
    ),
    Plot(
        "the last berry",
        {"a": "animal:bear,fox,mouse,rabbit,squirrel,dog,dragon", "b": "animal:hedgehog,frog,duck,badger,pig"},
        """
        @open_animal [A.his] best friend was a [b.kind] named [b].

        @nice_day, the two friends {went into the forest|walked through the meadow} to look for berries. They looked
        {and looked|under every leaf}. At last, they found {one single berry|just one berry}. It was {big|huge},
        {red|blue} and {sweet|ripe}. "{I saw it first|It is mine}!" said [a]. "{No, I saw it first|No, it is mine}!"
        said [b]. They pulled and pulled. {Plop!|Splat!} The berry {fell into the mud|flew into the river}, and {it was
        gone|nobody could eat it}. They {went home and did not say a word|both went home angry}.

        That {evening|night}, [a] {sat alone|could not eat}. [A.he] {thought of|remembered} all the {good times|games}
        with [b]. "{A berry is small|It was only a berry}," [a.he] thought. "{A friend is more than a berry|A friend is
        much more}." {So [a.he]|[A]} {baked|made} a little {cake|pie} and {went out|went} to say sorry. And {on the
        path|halfway}, who came along? It was [b], with a {basket|pot} of [a.food]! "{I was coming to you|I wanted to
        say sorry}," said [b]. "{I was coming to you, too|Me, too}," said [a]. They sat down {in the moonlight|under the
        stars} and shared {everything|the food}, half for [a] and half for [b]. "{Half is enough|Half with a friend is
        better than all alone}," said [b]. {And when they found a berry the next time, they cut it in two.|And there
        were enough berries the next {summer|year}.}
        """,
    ),
    Plot(
        "the flower in the field",
        {
            "a": "animal:rabbit,goat,deer,pig,cat,dragon",
            "b": "animal:mouse,squirrel,frog,hedgehog",
            "c": "animal:bear,fox,turtle",
        },
        """
        @open_animal

        {One spring day|One day in spring}, [a] found a [color] [flower] {in the middle of the field|next to the path}.
        It was the {only|most beautiful} flower {there|far and wide}. "{I will pick it|I want to take it home}," said
        [a]. "{It will look nice|It would be pretty} {on my table|in my window}." "{Please don't|Oh, no}!" said a
        {tiny|small} voice. It was [b], the [b.kind]. "{It makes me happy every morning|I look at it every morning}."
        "{And I|I} {smell it|stop here} on my way to work," said {a|an old} [c.kind]. "{But I found it|But it is so
        pretty}," said [a]. {[A.he] put out [a.his] hand|[A.he] came very close} and looked at the flower. A
        {yellow|fat} bee {sat|was sleeping} in it, {happy and warm|covered with yellow dust}. "If I take it home, {only
        I can see it|it is only mine}," [a.he] said slowly. "{Here|But here}, it {belongs to all of us|can make
        everybody happy}."

        So [a] {left it there|let it stand}. {Instead, [a.he]|[A.he]} put {white|round} stones around it, so that nobody
        {would step on it|could walk over it}. When it was dry, [b] {brought water in a nut shell|gave it water}. And
        {the next spring|one year later}, {what did they see? The|what a surprise! The} whole field was full of flowers!
        There were {a hundred|so many} flowers! "{Now everybody can take one home|Now there is one for each of us},"
        said [a], and {all the animals laughed|they danced}.
        """,
        {
            "color": ("red", "blue", "yellow", "orange", "purple", "pink", "white"),
            "flower": FLOWERS,
        },
    ),
    Plot(
        "the lost little one",
        {
            "a": "animal:fox,bear,badger,deer,dog,dragon",
            "b": "animal:mouse,duck,frog,rabbit",
            "c": "animal:owl,turtle,beaver",
        },
        """
        @open_animal

        One foggy {morning|day}, [a] heard {somebody cry|a tiny cry}. {Behind a tree|Under a bush} sat a baby [b.kind].
        "{Who are you|What is your name}, little one?" asked [a] {softly|in a kind voice}. "I am [b]," said the baby.
        "{I followed a butterfly|I wanted to see the big forest}, and now I {can't find my way home|am lost}." "{Don't
        cry|I will help you}," said [a]. "{Where is your home|What does your home look like}?" "{I live|We live}
        [b.home]," said [b]. "{We eat [b.food] every day|And we always eat [b.food]}." [A] {did not know the
        place|thought about it}. "{Let's ask|We can ask} the {old|wise} [c.kind]," [a.he] said. "[C.he] {knows
        everything|has seen the whole forest}." [A] {took [b] on [a.his] back|held [b]'s hand}, and they walked {through
        the fog|deep into the forest}.

        The [c.kind] {listened to them|closed [c.his] eyes and thought}. "{Go to the old stone|Walk to the tall pine
        tree}," [c.he] said. "{Then follow the stream|Then go where the sun comes up}. {When you smell [b.food], you are
        there|There you will find it}." {They thanked [c.him] and went on|"Thank you!" they said}. They {walked and
        walked|went up and down}, and {slowly the fog went away|the sun came through the trees}. "{There! There it is|I
        can see my home}!" cried [b]. "Mama! Mama!" [B]'s mother {ran to them|came out}. "{How can I thank you|What can
        I give you}, [a]?" she said. "{Please, eat with us|Come in and eat with us}." {They ate [b.food], and everybody
        was happy.|So they all ate [b.food] and laughed.}
        """,
    ),
)
