// Package price predicts the cost of a step of a model on a device before it is run: for every node of the graph its
// arithmetic, its traffic by memory level, what bounds it and how long it takes, and the sum. It needs the graph alone:
// no weights and no device.
//
// Every cost is two figures. The floor is the roofline (Williams, Waterman and Patterson, CACM 2009): the
// longest of the arithmetic at the device's peak rate and the traffic of each memory level at its bandwidth. Nothing is
// faster. The price is the expected time: the floor's terms with the coefficients of a Fit, which `ridge calibrate`
// measures and the engine corrects after every step.
//
// Work is counted in FLOPs (additions and multiplications, whatever the number format), a rate in FLOP/s; sizes in
// bytes, bandwidths in bytes/s, times in seconds.
package price
