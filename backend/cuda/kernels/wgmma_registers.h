// A thread's sums of a product on Hopper's warpgroups, 4 to 128 of an array d, as assembly names them: NAMESn are the names of n, which come
// first of the operands, and SUMSn(kind) the operands themselves, of kind "+f" or "+r".
#pragma once

#define NAMES4 "%0,%1,%2,%3"
#define NAMES8 NAMES4 ",%4,%5,%6,%7"
#define NAMES16 NAMES8 ",%8,%9,%10,%11,%12,%13,%14,%15"
#define NAMES32 NAMES16 ",%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define NAMES48 NAMES32 ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47"
#define NAMES64 NAMES48 ",%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define NAMES80 NAMES64 ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79"
#define NAMES96 NAMES80 ",%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95"
#define NAMES112 NAMES96 ",%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111"
#define NAMES128 NAMES112 ",%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"

#define FOUR_SUMS(kind, i) kind(d[i]), kind(d[i + 1]), kind(d[i + 2]), kind(d[i + 3])
#define SUMS4(kind) FOUR_SUMS(kind, 0)
#define SUMS8(kind) SUMS4(kind), FOUR_SUMS(kind, 4)
#define SUMS16(kind) SUMS8(kind), FOUR_SUMS(kind, 8), FOUR_SUMS(kind, 12)
#define SUMS32(kind) SUMS16(kind), FOUR_SUMS(kind, 16), FOUR_SUMS(kind, 20), FOUR_SUMS(kind, 24), FOUR_SUMS(kind, 28)
#define SUMS48(kind) SUMS32(kind), FOUR_SUMS(kind, 32), FOUR_SUMS(kind, 36), FOUR_SUMS(kind, 40), FOUR_SUMS(kind, 44)
#define SUMS64(kind) SUMS48(kind), FOUR_SUMS(kind, 48), FOUR_SUMS(kind, 52), FOUR_SUMS(kind, 56), FOUR_SUMS(kind, 60)
#define SUMS80(kind) SUMS64(kind), FOUR_SUMS(kind, 64), FOUR_SUMS(kind, 68), FOUR_SUMS(kind, 72), FOUR_SUMS(kind, 76)
#define SUMS96(kind) SUMS80(kind), FOUR_SUMS(kind, 80), FOUR_SUMS(kind, 84), FOUR_SUMS(kind, 88), FOUR_SUMS(kind, 92)
#define SUMS112(kind) SUMS96(kind), FOUR_SUMS(kind, 96), FOUR_SUMS(kind, 100), FOUR_SUMS(kind, 104), FOUR_SUMS(kind, 108)
#define SUMS128(kind) SUMS112(kind), FOUR_SUMS(kind, 112), FOUR_SUMS(kind, 116), FOUR_SUMS(kind, 120), FOUR_SUMS(kind, 124)
