module tgi

go 1.26.0

require (
	github.com/dlclark/regexp2 v1.12.0 // indirect
	github.com/gorilla/mux v1.8.1 // indirect
	github.com/pelletier/go-toml/v2 v2.4.3 // indirect
	github.com/prometheus/client_golang v1.25.0 // indirect
	github.com/yalue/onnxruntime_go v1.36.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.43.0 // indirect
)
