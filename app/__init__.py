"""The app room: faces for people. No logic here that another face would need too."""
