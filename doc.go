// Package ridge runs large language models on CPUs and NVIDIA GPUs.
package ridge
