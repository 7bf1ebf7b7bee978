// nri-plugin is a plugin on the stub of containerd/nri that does what it is told to.
//
//	nri-plugin -socket nri.sock -index 10 -name interop [-spec JSON]
//
// Started by a runtime it takes its identity from the environment and its spec from the configuration text. What it sees
// goes to standard output (or to the file that the spec names) as one JSON object a line. Lines on standard input are
// commands: {"spec":{..}}, {"update":[..]} (an unsolicited update), {"stop":true}.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// spec says how to answer. Keys of maps are names of events.
type spec struct {
	// Events to subscribe to, as ParseEventMask takes them; all when empty.
	Events string `json:"events"`
	// Adjust is the adjustment of each container that is created.
	Adjust json.RawMessage `json:"adjust"`
	// Only says which container is adjusted, by name; every one when empty.
	Only string `json:"only"`
	// Updates are what CreateContainer, UpdateContainer, StopContainer and Synchronize return.
	Updates map[string][]json.RawMessage `json:"updates"`
	// Sleep is how long a handler takes.
	Sleep map[string]string `json:"sleep"`
	// Fail is the text of a handler's error.
	Fail map[string]string `json:"fail"`
	// Die names the event in whose handler the process kills itself.
	Die string `json:"die"`
	// Reject refuses what is adjusted, with this text.
	Reject string `json:"reject"`
	// Ask is sent as an unsolicited update from within CreateContainer.
	Ask []json.RawMessage `json:"ask"`
	// Out is the file to report to.
	Out string `json:"out"`
	// Full reports whole messages, not only ids.
	Full bool `json:"full"`
	// Quiet reports the beginning, the end and the answers to commands, and nothing else.
	Quiet bool `json:"quiet"`
}

type plugin struct {
	mu     sync.Mutex
	spec   spec
	out    *os.File
	adjust *api.ContainerAdjustment
	stub   stub.Stub
}

type fields map[string]any

func (p *plugin) set(text []byte) error {
	var next spec
	if err := json.Unmarshal(text, &next); err != nil {
		return err
	}
	var adjust *api.ContainerAdjustment
	if len(next.Adjust) > 0 {
		adjust = &api.ContainerAdjustment{}
		if err := protojson.Unmarshal(next.Adjust, adjust); err != nil {
			return err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if next.Out != "" && next.Out != p.spec.Out {
		out, err := os.OpenFile(next.Out, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		p.out = out
	}
	p.spec, p.adjust = next, adjust
	return nil
}

func (p *plugin) get() (spec, *api.ContainerAdjustment) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.spec, p.adjust
}

// say reports an event; one write a line.
func (p *plugin) say(event string, more fields) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch event {
	case "started", "failed", "closed", "asked", "updated", "spec", "error":
	default:
		if p.spec.Quiet {
			return
		}
	}
	if more == nil {
		more = fields{}
	}
	more["event"] = event
	line, err := json.Marshal(more)
	if err != nil {
		line = []byte(fmt.Sprintf(`{"event":"error","error":%q}`, err))
	}
	_, _ = p.out.Write(append(line, '\n'))
}

func (p *plugin) whole(message proto.Message) json.RawMessage {
	if s, _ := p.get(); !s.Full {
		return nil
	}
	text, err := protojson.Marshal(message)
	if err != nil {
		return nil
	}
	return text
}

// seen reports an event of a pod and a container, and does what the spec says about it.
func (p *plugin) seen(ctx context.Context, event string, pod *api.PodSandbox, ctr *api.Container) ([]*api.ContainerUpdate, error) {
	if s, _ := p.get(); !s.Quiet {
		more := fields{"pod": pod.GetId()}
		if ctr != nil {
			more["container"] = ctr.GetId()
		}
		if whole := p.whole(pod); whole != nil {
			more["pod_message"] = whole
			if ctr != nil {
				more["container_message"] = p.whole(ctr)
			}
		}
		p.say(event, more)
	}
	return p.act(ctx, event)
}

func (p *plugin) act(ctx context.Context, event string) ([]*api.ContainerUpdate, error) {
	s, _ := p.get()
	if s.Die == event {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	if text, ok := s.Sleep[event]; ok {
		pause, err := time.ParseDuration(text)
		if err != nil {
			return nil, err
		}
		// Whatever the context says: this is the plugin that does not look at it.
		time.Sleep(pause)
		p.say("slept", fields{"in": event, "context": fmt.Sprint(ctx.Err())})
	}
	if text, ok := s.Fail[event]; ok {
		return nil, errors.New(text)
	}
	return updates(s.Updates[event])
}

func updates(texts []json.RawMessage) ([]*api.ContainerUpdate, error) {
	var parsed []*api.ContainerUpdate
	for _, text := range texts {
		update := &api.ContainerUpdate{}
		if err := protojson.Unmarshal(text, update); err != nil {
			return nil, err
		}
		parsed = append(parsed, update)
	}
	return parsed, nil
}

func (p *plugin) ask(event string, texts []json.RawMessage) {
	wanted, err := updates(texts)
	var failed []*api.ContainerUpdate
	if err == nil {
		failed, err = p.stub.UpdateContainers(wanted)
	}
	more := fields{"failed": []string{}, "error": ""}
	ids := []string{}
	for _, update := range failed {
		ids = append(ids, update.GetContainerId())
	}
	more["failed"] = ids
	if err != nil {
		more["error"] = err.Error()
	}
	p.say(event, more)
}

func (p *plugin) Configure(_ context.Context, config, runtime, version string) (api.EventMask, error) {
	if len(config) > 0 && config[0] == '{' {
		if err := p.set([]byte(config)); err != nil {
			return 0, err
		}
	}
	s, _ := p.get()
	p.say("Configure", fields{
		"config": config, "runtime": runtime, "version": version, "nri": p.stub.RuntimeNRIVersion(),
		"registration_ms": p.stub.RegistrationTimeout().Milliseconds(), "request_ms": p.stub.RequestTimeout().Milliseconds(),
		"pid": os.Getpid(), "environment": names(),
	})
	if text, ok := s.Fail["Configure"]; ok {
		return 0, errors.New(text)
	}
	if s.Events == "" {
		return 0, nil
	}
	return api.ParseEventMask(s.Events)
}

// names of the variables of the environment.
func names() []string {
	all := []string{}
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		all = append(all, name)
	}
	return all
}

func (p *plugin) Synchronize(ctx context.Context, pods []*api.PodSandbox, ctrs []*api.Container) ([]*api.ContainerUpdate, error) {
	podIDs, ctrIDs, size := []string{}, []string{}, 0
	for _, pod := range pods {
		podIDs = append(podIDs, pod.GetId())
		size += proto.Size(pod)
	}
	for _, ctr := range ctrs {
		ctrIDs = append(ctrIDs, ctr.GetId())
		size += proto.Size(ctr)
	}
	p.say("Synchronize", fields{"pods": podIDs, "containers": ctrIDs, "size": size})
	return p.act(ctx, "Synchronize")
}

func (p *plugin) Shutdown(context.Context) { p.say("Shutdown", nil) }

func (p *plugin) RunPodSandbox(ctx context.Context, pod *api.PodSandbox) error {
	_, err := p.seen(ctx, "RunPodSandbox", pod, nil)
	return err
}

func (p *plugin) UpdatePodSandbox(ctx context.Context, pod *api.PodSandbox, _, _ *api.LinuxResources) error {
	_, err := p.seen(ctx, "UpdatePodSandbox", pod, nil)
	return err
}

func (p *plugin) PostUpdatePodSandbox(ctx context.Context, pod *api.PodSandbox) error {
	_, err := p.seen(ctx, "PostUpdatePodSandbox", pod, nil)
	return err
}

func (p *plugin) StopPodSandbox(ctx context.Context, pod *api.PodSandbox) error {
	_, err := p.seen(ctx, "StopPodSandbox", pod, nil)
	return err
}

func (p *plugin) RemovePodSandbox(ctx context.Context, pod *api.PodSandbox) error {
	_, err := p.seen(ctx, "RemovePodSandbox", pod, nil)
	return err
}

func (p *plugin) CreateContainer(ctx context.Context, pod *api.PodSandbox, ctr *api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	update, err := p.seen(ctx, "CreateContainer", pod, ctr)
	s, adjust := p.get()
	if len(s.Ask) > 0 {
		p.ask("asked", s.Ask)
	}
	if s.Only != "" && s.Only != ctr.GetName() {
		adjust = nil
	}
	return adjust, update, err
}

func (p *plugin) PostCreateContainer(ctx context.Context, pod *api.PodSandbox, ctr *api.Container) error {
	_, err := p.seen(ctx, "PostCreateContainer", pod, ctr)
	return err
}

func (p *plugin) StartContainer(ctx context.Context, pod *api.PodSandbox, ctr *api.Container) error {
	_, err := p.seen(ctx, "StartContainer", pod, ctr)
	return err
}

func (p *plugin) PostStartContainer(ctx context.Context, pod *api.PodSandbox, ctr *api.Container) error {
	_, err := p.seen(ctx, "PostStartContainer", pod, ctr)
	return err
}

func (p *plugin) UpdateContainer(ctx context.Context, pod *api.PodSandbox, ctr *api.Container, _ *api.LinuxResources) ([]*api.ContainerUpdate, error) {
	return p.seen(ctx, "UpdateContainer", pod, ctr)
}

func (p *plugin) PostUpdateContainer(ctx context.Context, pod *api.PodSandbox, ctr *api.Container) error {
	_, err := p.seen(ctx, "PostUpdateContainer", pod, ctr)
	return err
}

func (p *plugin) StopContainer(ctx context.Context, pod *api.PodSandbox, ctr *api.Container) ([]*api.ContainerUpdate, error) {
	return p.seen(ctx, "StopContainer", pod, ctr)
}

func (p *plugin) RemoveContainer(ctx context.Context, pod *api.PodSandbox, ctr *api.Container) error {
	_, err := p.seen(ctx, "RemoveContainer", pod, ctr)
	return err
}

func (p *plugin) ValidateContainerAdjustment(ctx context.Context, req *api.ValidateContainerAdjustmentRequest) error {
	consulted := []string{}
	for _, instance := range req.GetPlugins() {
		consulted = append(consulted, instance.GetIndex()+"-"+instance.GetName())
	}
	more := fields{"pod": req.GetPod().GetId(), "container": req.GetContainer().GetId(), "plugins": consulted}
	if owners, err := protojson.Marshal(req.GetOwners()); err == nil {
		more["owners"] = json.RawMessage(owners)
	}
	if adjust, err := protojson.Marshal(req.GetAdjust()); err == nil {
		more["adjust"] = json.RawMessage(adjust)
	}
	p.say("ValidateContainerAdjustment", more)
	if _, err := p.act(ctx, "ValidateContainerAdjustment"); err != nil {
		return err
	}
	if s, _ := p.get(); s.Reject != "" {
		return errors.New(s.Reject)
	}
	return nil
}

func (p *plugin) commands() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var command struct {
			Spec   json.RawMessage   `json:"spec"`
			Update []json.RawMessage `json:"update"`
			Stop   bool              `json:"stop"`
		}
		if err := json.Unmarshal(lines.Bytes(), &command); err != nil {
			p.say("error", fields{"error": err.Error()})
			continue
		}
		if command.Spec != nil {
			more := fields{"error": ""}
			if err := p.set(command.Spec); err != nil {
				more["error"] = err.Error()
			}
			p.say("spec", more)
		}
		if command.Update != nil {
			p.ask("updated", command.Update)
		}
		if command.Stop {
			p.stub.Stop()
			return
		}
	}
}

func main() {
	socket := flag.String("socket", "", "the runtime's socket")
	index := flag.String("index", "", "two digits")
	name := flag.String("name", "", "the name of the plugin")
	text := flag.String("spec", "{}", "how to answer, as JSON")
	flag.Parse()

	p := &plugin{out: os.Stdout}
	if err := p.set([]byte(*text)); err != nil {
		fail(err)
	}
	closed := make(chan struct{})
	options := []stub.Option{stub.WithOnClose(func() { close(closed) })}
	if *socket != "" {
		options = append(options, stub.WithSocketPath(*socket))
	}
	if *index != "" {
		options = append(options, stub.WithPluginIdx(*index))
	}
	if *name != "" {
		options = append(options, stub.WithPluginName(*name))
	}
	made, err := stub.New(p, options...)
	if err != nil {
		fail(err)
	}
	p.stub = made
	if err := made.Start(context.Background()); err != nil {
		p.say("failed", fields{"error": err.Error()})
		os.Exit(1)
	}
	p.say("started", nil)
	go p.commands()
	ended := make(chan struct{})
	go func() {
		made.Wait()
		close(ended)
	}()
	select {
	case <-closed:
	case <-ended:
	}
	p.say("closed", nil)
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "nri-plugin:", err)
	os.Exit(1)
}
