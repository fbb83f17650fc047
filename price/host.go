package price

// What rows take on their way through the host where devices of several backends exchange them: to wait for the work before, and to start a copy.
const (
	hostLag  = 15e-6 // s
	hostRate = 16e9  // bytes/s of a GPU whose link to the host is not known: that of PCIe 3.0 with 16 lanes
)

// ThroughHost is the profile of a device whose peers are of other backends: what they exchange goes over its link to the host. Of the CPU, which is the host, it is a copy in memory.
func (p *Profile) ThroughHost() *Profile {
	q := *p
	q.Link, q.LinkLag = p.Memory().Rate, 0
	if p.Act == "bf16" {
		q.Link, q.LinkLag = p.Host, hostLag
		if q.Link == 0 {
			q.Link = hostRate
		}
	}
	return &q
}
