// One program for all parts of a one-node Kubernetes, chosen by the name that it is called by (kube-apiserver, kubelet, …) or by its first argument.
//
// Each part is a process of its own all the same: feature gates, flags and metrics are globals of a process, and two parts in one would clash.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	_ "time/tzdata"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	_ "k8s.io/client-go/plugin/pkg/client/auth"
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func command(c *cobra.Command) { os.Exit(cli.Run(c)) }

var parts = map[string]func(){
	"etcd":                    func() { etcdmain.Main(os.Args) },
	"kube-apiserver":          func() { command(apiserver.NewAPIServerCommand()) },
	"kube-controller-manager": func() { command(controllers.NewControllerManagerCommand()) },
	"kube-proxy":              func() { command(proxy.NewProxyCommand()) },
	"kube-scheduler":          func() { command(scheduler.NewSchedulerCommand()) },
	"kubelet":                 func() { command(kubelet.NewKubeletCommand(context.Background())) },
	"kubectl": func() {
		_, _ = logs.GlogSetter(kubectl.GetLogVerbosity(os.Args))
		util.CheckErr(cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()))
	},
}

func main() {
	part := parts[filepath.Base(os.Args[0])]
	if part == nil && len(os.Args) > 1 {
		os.Args = os.Args[1:]
		part = parts[os.Args[0]]
	}
	if part == nil {
		var names []string
		for name := range parts {
			names = append(names, name)
		}
		sort.Strings(names)
		fmt.Fprintln(os.Stderr, "usage: kube "+strings.Join(names, "|")+" [OPTION...]")
		os.Exit(2)
	}
	part()
}
