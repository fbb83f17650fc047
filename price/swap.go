package price

// Swap is what it takes to move so many bytes from the device's memory to the host's, or back, s. A device without a way
// to the host is the host: it copies within its memory, where every byte is read, and written after its line was read too.
func (p *Profile) Swap(bytes int64) float64 {
	if p.Host > 0 {
		return float64(bytes) / p.Host
	}
	return 3 * float64(bytes) / p.Memory().Rate
}
