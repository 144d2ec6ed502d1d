"""The console of `oncekey dev`, at `/_console/`: what the local runtime sees and can break."""
