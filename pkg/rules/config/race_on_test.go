//go:build race

package config

// raceDetector says that times mean nothing.
const raceDetector = true
