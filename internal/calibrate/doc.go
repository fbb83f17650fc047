// Package calibrate measures a device for pricing: its peaks, its memory levels, and what kernels of each class reach of
// them. It runs graphs made for the purpose, one node of everything that models are made of, and has price fit its
// coefficients to the times.
package calibrate
