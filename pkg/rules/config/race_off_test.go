//go:build !race

package config

// raceDetector says whether times are meaningless.
const raceDetector = false
