// Package calibrate measures a device for package price: its peaks, its memory levels, and the fraction of them that kernels of each
// class reach. It runs microbenchmark graphs with the ops that models are made of, and fits the coefficients of price to the times.
package calibrate
