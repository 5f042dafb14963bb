# The mask of a cross-attention is one of the memory's places, not of those that look.
# expect: E0401 at 9:59
import shapescript.std.attention as attention

model Net:
    attend: attention.MultiheadAttention[8, 2]

fn read(m: Net, x: [b n 8], memory: [b k 8], mask: bool[b n]) -> [b n 8]:
    return attention.cross_attention(x, memory, m.attend, mask)
