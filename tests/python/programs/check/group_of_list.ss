# A list's sub-models have numbers; of a list of unknown length, any may be meant.
# expect: E0208 at 14:11

model Block:
    weight: [3] = ones

model Tower[L]:
    group "blocks.7.*": frozen=true
    blocks: Block * L

model Small:
    blocks: Block * 3
    group "blocks.2.weight": frozen=true
    group "blocks.3.weight": frozen=true
