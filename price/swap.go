package price

// Swap is the time to move bytes between the device's memory and the host's, s. A device without a host link is the CPU: it copies
// within its memory, with a read, a read for ownership and a write for each byte.
func (p *Profile) Swap(bytes int64) float64 {
	if p.Host > 0 {
		return float64(bytes) / p.Host
	}
	return 3 * float64(bytes) / p.Memory().Rate
}
