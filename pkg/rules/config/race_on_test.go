//go:build race

package config

// raceDetector says whether the race detector is on. If it is on, measured times mean nothing.
const raceDetector = true
