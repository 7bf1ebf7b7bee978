// pause is all that the image of the containers holds: a static program that waits for a signal.
//
//	pause            waits for TERM or INT
//	pause env        prints its environment, one variable a line
//	pause limits     prints the limits of its process
package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	if len(os.Args) < 2 {
		ended := make(chan os.Signal, 1)
		signal.Notify(ended, syscall.SIGTERM, syscall.SIGINT)
		<-ended
		return
	}
	switch os.Args[1] {
	case "env":
		for _, variable := range os.Environ() {
			fmt.Println(variable)
		}
	case "limits":
		text, err := os.ReadFile("/proc/self/limits")
		if err != nil {
			fmt.Fprintln(os.Stderr, "pause:", err)
			os.Exit(1)
		}
		fmt.Print(string(text))
	default:
		fmt.Fprintf(os.Stderr, "pause: no command %q\n", os.Args[1])
		os.Exit(2)
	}
}
