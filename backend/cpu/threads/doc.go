// Package threads is the CPU backend's thread pool: a fixed set of workers with spin barriers and work-stealing queues, bound to
// NUMA nodes, as many as the affinity mask and the control groups' quotas allow.
package threads
