// Words with two senses, and sentences that show each: what a use of the word is compared with.

export const SENSES = {
  present: {
    gift: [
      "I will buy you a present.",
      "He gave his mother a present for her birthday.",
      "She wrapped the present in red paper.",
    ],
    now: [
      "Live in the present, not the past.",
      "The castle has been a museum from 1952 to the present.",
      "The novel moves between the present and her childhood.",
    ],
  },
  bank: {
    river: [
      "The village lies on the east bank of the Rhine.",
      "We sat on the grassy bank and watched the boats.",
      "The boys fished from the bank of the river.",
    ],
    money: [
      "She opened an account at the bank.",
      "The bank raised its interest rates.",
      "He borrowed the money from a bank in London.",
    ],
  },
  bat: {
    animal: [
      "A bat hung upside down in the cave.",
      "This species of bat feeds on insects.",
      "At dusk a bat flew out of the barn.",
    ],
    club: [
      "He hit the ball with his bat.",
      "The player broke a wooden bat at home plate.",
      "She swung the bat and missed.",
    ],
  },
  play: {
    theater: [
      "Shakespeare wrote the play in 1606.",
      "The actors rehearsed a new play for weeks.",
      "Her first play opened on Broadway.",
    ],
    sport: [
      "Chico Ruiz made a spectacular play on the grounder.",
      "The referee stopped play after the foul.",
      "Rain delayed play on the second day of the match.",
    ],
  },
  spring: {
    season: [
      "The trees flower in early spring.",
      "The army attacked in the spring of 1943.",
      "Last spring was unusually cold.",
    ],
    water: [
      "The stream rises from a spring in the hills.",
      "They drank from the cold spring behind the house.",
      "A hot spring feeds the pool with mineral water.",
    ],
  },
  rock: {
    stone: [
      "The church was cut out of solid rock.",
      "A huge rock fell onto the road.",
      "The cliff consists of volcanic rock.",
    ],
    music: [
      "The band mixed jazz with rock.",
      "He listened to rock and folk music.",
      "The album was a return to hard rock.",
    ],
  },
};

// Two sentences with the word, one per sense, that are not among those above.
export const PAIRS = {
  present: ["She hid his birthday present under the bed.", "The story begins in 1920 and ends in the present."],
  bank: ["Trees grow along the bank of the stream.", "The bank refused to lend him any money."],
  bat: ["We saw a bat asleep in the dark cave.", "He lifted the bat and hit the ball over the fence."],
  play: ["The theater will open with a new play.", "The rain stopped play in the second half."],
  spring: ["The birds return every spring.", "Clear water flows from the spring below the rock."],
  rock: ["The road was blocked by a fallen rock.", "She sings in a rock band."],
};
