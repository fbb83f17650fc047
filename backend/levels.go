package backend

// Level is a level of a device's memory, with what all of its threads read from it together.
type Level struct {
	Name  string
	Bytes int64
	Read  float64 // bytes/s
}

// LevelMeasurer is a device that knows the caches before its memory, nearest first, and can measure them.
type LevelMeasurer interface {
	// Caches measures for a fraction of a second.
	Caches() ([]Level, error)
}
