package live

import (
	"bufio"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// Metrics are values by name, with their labels as /metrics writes them.
type Metrics map[string]float64

// Sum adds up all values of a name, whatever their labels.
func (m Metrics) Sum(name string) float64 {
	sum := m[name]
	for k, v := range m {
		if strings.HasPrefix(k, name+"{") {
			sum += v
		}
	}
	return sum
}

// Metrics reads the server's metrics.
func (s *Server) Metrics(t testing.TB) Metrics {
	t.Helper()
	res, err := http.Get(s.URL + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	m := Metrics{}
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		at := strings.LastIndexByte(lines.Text(), ' ')
		if at < 0 || strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		if v, err := strconv.ParseFloat(lines.Text()[at+1:], 64); err == nil {
			m[lines.Text()[:at]] = v
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return m
}
