package price

import "fmt"

// AllReduce is what a ring of n devices takes to sum a buffer of so many bytes on all of them, s: 2(n−1) messages of an
// n-th of it (Patarasuk and Yuan, JPDC 2009). It is 0 for one device.
func (p *Profile) AllReduce(bytes int64, n int) (float64, error) {
	if n <= 1 {
		return 0, nil
	}
	return p.messages(2*(n-1), float64(bytes)/float64(n))
}

// AllGather is what a ring of n devices takes until each has the n parts of a buffer that comes to so many bytes, s. A
// reduce-scatter takes the same.
func (p *Profile) AllGather(bytes int64, n int) (float64, error) {
	if n <= 1 {
		return 0, nil
	}
	return p.messages(n-1, float64(bytes)/float64(n))
}

// AllToAll is what n devices take to exchange buffers of so many bytes, an n-th of each device's for each of them, s.
func (p *Profile) AllToAll(bytes int64, n int) (float64, error) {
	if n <= 1 {
		return 0, nil
	}
	return p.messages(1, float64(bytes)*float64(n-1)/float64(n)) // to all at once, over one link
}

// Send is what a message of so many bytes takes to another device, s.
func (p *Profile) Send(bytes int64) (float64, error) { return p.messages(1, float64(bytes)) }

func (p *Profile) messages(count int, bytes float64) (float64, error) {
	if p.Link == 0 {
		return 0, fmt.Errorf("price: profile %q has no link_bytes_per_second, which several devices need", p.Name)
	}
	return float64(count) * (p.LinkLag + bytes/p.Link), nil
}
